/* nb_beside [--divide N] [--steps N] [--whole 1] [--blocking 1]: the tensors of ResNet-50, each N
 * times smaller (default 256), one MPI_Iallreduce each, posted late by some ranks and waited for in
 * another order by each; or one blocking MPI_Allreduce after the other. Prints the bits of all
 * results; all ranks have the same.
 *
 * Values are fractions, whose sums depend on the order of addition, or whole numbers, whose sums do
 * not. */
#include "tests/mpi/nonblocking/layers.h"
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { LIMIT = 100, LAYERS = LAYERS_RESNET };

struct net {
    int count[LAYERS];
    float *in[LAYERS], *out[LAYERS];
    bool whole, blocking;
    uint64_t bits;
};

/* Layers of unlike densities, one of them zero. */
static float value_of(const struct net *net, int step, int layer, int i)
{
    uint64_t word = input_word((uint64_t)(1000 * step + layer), tap.rank, (uint64_t)i);
    uint64_t one_in = layer % 9 == 4 ? 1 : layer % 9 == 7 ? 0 : 16 + 40 * (uint64_t)(layer % 5);
    double value = (double)(word >> 40 & 1023) - 511;

    if (one_in == 0 || word % one_in != 0)
        return 0;
    return (float)(net->whole ? value : value / 7 * (1 + (double)(word >> 50)));
}

static void make(struct net *net, int divide)
{
    layers_resnet(net->count);
    for (int i = 0; i < LAYERS; i++) {
        net->count[i] = (net->count[i] + divide - 1) / divide;
        net->in[i] = input_alloc((size_t)net->count[i] * sizeof(float));
        net->out[i] = input_alloc((size_t)net->count[i] * sizeof(float));
    }
}

static void post(struct net *net, int step, MPI_Request *request)
{
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        for (int i = 0; i < net->count[layer]; i++)
            net->in[layer][i] = value_of(net, step, layer, i);
        if (input_word(3, tap.rank, (uint64_t)(step * LAYERS + layer)) % 40 == 0)
            nb_user_code(0.002);
        if (net->blocking)
            MPI_Allreduce(net->in[layer], net->out[layer], net->count[layer], MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
        else
            MPI_Iallreduce(net->in[layer], net->out[layer], net->count[layer], MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD, &request[layer]);
    }
}

static void wait_for(int how, MPI_Request *request)
{
    MPI_Status status;
    int at, flag;

    if (how == 0)
        nb_wait_all(LAYERS, request);
    for (int i = 0; how == 1 && i < LAYERS; i++) /* the last posted first */
        MPI_Wait(&request[i], &status);
    for (int i = 0; how == 2 && i < LAYERS; i++)
        MPI_Waitany(LAYERS, request, &at, &status);
    for (int left = LAYERS; how == 3 && left > 0;) {
        int i = (int)(input_word(4, tap.rank, (uint64_t)left) % LAYERS);
        while (request[i] == MPI_REQUEST_NULL)
            i = (i + 1) % LAYERS;
        MPI_Test(&request[i], &flag, &status);
        left -= flag;
    }
}

static void take_bits(struct net *net)
{
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < net->count[layer]; i++) {
            uint32_t word;
            memcpy(&word, &net->out[layer][i], sizeof word);
            net->bits = (net->bits ^ word) * 0x9e3779b97f4a7c15u;
            net->bits ^= net->bits >> 29;
        }
}

int main(int argc, char **argv)
{
    static struct net net;
    MPI_Request request[LAYERS];
    uint64_t first;
    float in[2000] = {1}, out[2000];
    int steps, status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    net.whole = nb_option(argc, argv, "--whole", 0) != 0;
    net.blocking = nb_option(argc, argv, "--blocking", 0) != 0;
    steps = (int)nb_option(argc, argv, "--steps", 5);
    make(&net, (int)nb_option(argc, argv, "--divide", 256));
    MPI_Allreduce(in, out, 2000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int step = 0; step < steps; step++) {
        nb_within(LIMIT, "step %d", step);
        post(&net, step, request);
        if (!net.blocking)
            wait_for((tap.rank + step) % 4, request);
        take_bits(&net);
        if (step == 2)
            MPI_Allreduce(in, out, 2000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    first = net.bits;
    PMPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    tap_note("bits %016llx", (unsigned long long)net.bits);
    tap_ok(first == net.bits, "%d steps of %d calls: the same bits on all ranks", steps, LAYERS);
    nb_within(LIMIT, "MPI_Finalize");
    for (int i = 0; i < LAYERS; i++) {
        free(net.in[i]);
        free(net.out[i]);
    }
    status = tap_end();
    MPI_Finalize();
    return status;
}
