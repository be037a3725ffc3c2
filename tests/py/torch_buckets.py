"""No residual meets another parameter than its own, whatever DDP does to its buckets.

Each element of parameter k has a prime as its gradient, in all steps and on all ranks. So whatever is sent of it, now
or later, is a multiple of the prime over the number of ranks, a power of two; with the residual of another parameter
it is not."""
import contextlib
import gc

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_tap import Tap

dist.init_process_group("gloo")
tap = Tap()
rank, ranks = tap.rank, tap.ranks
PRIMES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149)
STEPS = 12


class Model(nn.Module):
    """Parameters whose gradients are primes. used: those that the loss has, of `first` on; None: all."""

    def __init__(self, first=0, count=5, size=1500, dtype=torch.float32):
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(size, dtype=dtype)) for _ in range(count)])
        self.primes = PRIMES[first:first + count]

    def forward(self, used=None):
        chosen = range(len(self.primes)) if used is None else used
        return sum(self.primes[k] * self.parts[k].sum() for k in chosen)


def is_own(model):
    """True if all gradients are multiples of their primes over the ranks."""
    for prime, part in zip(model.primes, model.parts):
        if part.grad is not None and bool((part.grad * ranks % prime != 0).any()):
            return False
    return True


def wrap(model, **named):
    return DistributedDataParallel(model, bucket_cap_mb=.012, **named)  # two parameters to a bucket


def train(model, parallel, steps=STEPS, used=lambda step: None, accumulate=1):
    good, lossy = True, False
    for step in range(steps):
        model.zero_grad()
        for turn in range(accumulate):
            with parallel.no_sync() if turn < accumulate - 1 else contextlib.nullcontext():
                parallel(used(step)).backward()
        good = good and is_own(model)
        lossy = lossy or any(part.grad is not None and len(part.grad.unique()) > 1 for part in model.parts)
    return True if good and lossy else f"own: {good}, lossy: {lossy}"


def plain(accumulate=1, **named):
    model = Model()
    return train(model, wrap(model, **named), accumulate=accumulate)


def unused():
    """Each rank uses other parameters in each step."""
    model = Model()
    return train(model, wrap(model, find_unused_parameters=True),
                 used=lambda step: [k for k in range(5) if (k + step + rank) % 3])


def two_models():
    """Their steps alternate."""
    models = Model(), Model(first=5)
    pairs, good = [(model, wrap(model)) for model in models], True
    for _ in range(STEPS):
        for model, parallel in pairs:
            model.zero_grad()
            parallel(None).backward()
            good = good and is_own(model)
    return good


def one_after_the_other():
    """The buckets of later models lie where those of earlier ones were."""
    results = []
    for first in (0, 5, 2):
        model = Model(first)
        results.append(train(model, wrap(model)))
        del model
        gc.collect()
    return next((result for result in results if result is not True), True)


def uneven(holds=is_own, steps=STEPS, **named):
    """Ranks have unequal numbers of steps."""
    model = Model(**named)
    parallel, good = wrap(model), True
    with parallel.join():
        for _ in range(steps + 3 * rank):
            model.zero_grad()
            parallel(None).backward()
            good = good and holds(model)
    return good


def is_near(model):
    """True if all gradients of 16 bits are near the mean over those ranks that have inputs, or are left for later."""
    return all(bool((part.grad <= 8 * prime).all()) for prime, part in zip(model.primes, model.parts))


def restored():
    """A checkpoint is read in between."""
    model = Model()
    parallel = wrap(model)
    state = {name: value.clone() for name, value in parallel.state_dict().items()}
    before = train(model, parallel)
    parallel.load_state_dict(state)
    return train(model, parallel, STEPS) if before is True else before


def wrapped_again():
    """The same parameters get new buckets."""
    model = Model()
    results = [train(model, wrap(model)) for _ in range(3)]
    return next((result for result in results if result is not True), True)


def exact_sums():
    """A loss of the size of a bucket, and one that is summed in each step."""
    model, good = Model(), True
    parallel, loss = wrap(model), torch.zeros(3000)
    for step in range(STEPS):
        model.zero_grad()
        parallel(None).backward()
        loss.copy_(torch.arange(3000.) * (rank + 1))
        dist.all_reduce(loss)
        good = good and torch.equal(loss, torch.arange(3000.) * (ranks * (ranks + 1) / 2))
    return good


tap.case("buckets that are made anew after the first step", plain)
tap.case("gradients as views of buckets", lambda: plain(gradient_as_bucket_view=True))
tap.case("static_graph", lambda: plain(static_graph=True))
tap.case("find_unused_parameters", unused)
tap.case("no_sync", lambda: plain(accumulate=3))
tap.case("two models in turn", two_models)
tap.case("models one after the other", one_after_the_other)
tap.case("the same parameters wrapped again", wrapped_again)
tap.case("join with uneven inputs", uneven)
tap.case("join with uneven inputs, bfloat16, long", lambda: uneven(is_near, 3, count=2, size=70000, dtype=torch.bfloat16))
tap.case("a checkpoint is read", restored)
tap.case("other sums of a bucket's size stay exact", exact_sums)
tap.finish()
