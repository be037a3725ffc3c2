/* nb_layers [--divide N] [--steps N]: one MPI_Iallreduce per layer in backward
 * order, while the gradient of the layer before is computed, and one MPI_Waitall, as frameworks do.
 * Tensors are those of ResNet-50 and of a transformer block, each N times smaller (default 16).
 */
#include "tests/mpi/nonblocking/layers.h"
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { LIMIT = 100, MOST = LAYERS_RESNET };

/* A step of the network: sums of all layers are right. Gradients of early layers are denser. */
static bool step(const int *count, int layers, int number, int test_every)
{
    struct nb_call *call = input_alloc((size_t)layers * sizeof *call);
    MPI_Request request[MOST];
    bool good = true;
    int flag;

    for (int posted = 0; posted < layers; posted++) {
        int layer = layers - 1 - posted;
        enum nb_input input = layer % 7 == 3 ? NB_DENSE : layer % 11 == 5 ? NB_ZERO : NB_SPARSE;

        call[layer] = nb_make(MPI_COMM_WORLD, MPI_FLOAT, count[layer], input, true,
                              (uint64_t)(1000 * number + layer));
        nb_post(&call[layer], MPI_COMM_WORLD);
        request[posted] = call[layer].request;
        if (test_every > 0 && posted % test_every == 0) {
            MPI_Test(&request[posted / 2], &flag, MPI_STATUS_IGNORE);
        }
    }
    nb_wait_all(layers, request);
    for (int layer = 0; layer < layers; layer++) {
        call[layer].request = request[layers - 1 - layer];
        good = nb_finish(&call[layer], "layer") && good;
    }
    free(call);
    return good;
}

static void train(const char *name, const int *full, int layers, int divide, int steps,
                  int test_every)
{
    int count[MOST];
    long sum = 0;
    bool good = true;

    for (int i = 0; i < layers; i++) {
        count[i] = (full[i] + divide - 1) / divide;
        sum += count[i];
    }
    for (int s = 0; s < steps; s++) {
        nb_within(LIMIT, "%s, step %d", name, s);
        good = step(count, layers, s, test_every) && good;
    }
    tap_ok(good, "%s: %d tensors, %ld elements, %d steps of one Waitall%s", name, layers, sum,
           steps, test_every ? ", tested on the way" : "");
}

int main(int argc, char **argv)
{
    int resnet[LAYERS_RESNET], block[LAYERS_BLOCK], divide, steps, status;
    long sum;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    divide = (int)nb_option(argc, argv, "--divide", 16);
    steps = (int)nb_option(argc, argv, "--steps", 4);
    if (divide < 1) {
        fprintf(stderr, "--divide takes 1 or more, not %d\n", divide);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    sum = layers_resnet(resnet);
    layers_block(768, block);
    tap_ok(sum == LAYERS_RESNET_SUM, "ResNet-50 has %d tensors of %ld elements in all",
           LAYERS_RESNET, sum);
    train("ResNet-50", resnet, LAYERS_RESNET, divide, steps, 0);
    train("a transformer block", block, LAYERS_BLOCK, divide, steps, 0);
    train("ResNet-50", resnet, LAYERS_RESNET, divide, steps, 5);
    nb_within(LIMIT, "MPI_Finalize");
    status = tap_end();
    MPI_Finalize();
    return status;
}
