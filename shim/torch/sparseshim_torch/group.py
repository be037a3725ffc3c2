"""A process group of torch.distributed that makes MPI calls.

Collectives run in order as blocking MPI calls, in a thread of the group (work.py), so that backward goes on. Sends
and receives are MPI requests. Calls that add up get pointers into the memory of a device, and libsparseshim serves
them there; calls that move data go through host memory, as an MPI library without CUDA needs it.
"""
import zlib

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.distributed import ReduceOp

from . import job
from .buckets import REDUCER, Buckets, active, caller
from .memory import HALVES, Output, Reduction, check, deal, flat, join, raw, typed
from .work import TORCH, Collective, Lane, Message, here

NAME = "sparseshim"
HALF_SUM = 65536  # elements from which 16-bit types travel in 16 bits


def operator_of(options):
    return options.reduceOp if options is not None else ReduceOp.SUM


class MpiGroup(dist.ProcessGroup):
    """Ranks of a communicator, which the group owns. world_ranks: their ranks in MPI_COMM_WORLD."""

    def __init__(self, comm, name, timeout, store):
        super().__init__(comm.rank, comm.size)
        self.base, self.label, self.limit, self.store = comm, name, timeout.total_seconds(), store
        self.ranks, self.me = comm.size, comm.rank
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        comm.Set_name(f"torch.distributed {name}"[:MPI.MAX_OBJECT_NAME - 1])
        self.world_ranks = comm.group.Translate_ranks(range(comm.size), job.WORLD.group)
        self.lanes, self.buckets = [Lane(name, 0, lambda: comm)], Buckets()
        self.broken, self.calls, self.devices = None, 0, []
        job.watch(self)

    # ---- what torch asks a group: the base class would ask a backend, which this group does not have ----

    def getBackendName(self):
        return NAME

    name = getBackendName

    def size(self):
        return self.ranks

    getSize = size

    def rank(self):
        return self.me

    getRank = rank

    # From C++ by these names, where PyTorch has them as virtual functions; from Python by those below.

    def setGroupName(self, name):
        self.label_ = name

    def getGroupName(self):
        return self.label_

    def setGroupDesc(self, description):
        self.description_ = description

    def getGroupDesc(self):
        return self.description_

    _set_group_name, group_name = setGroupName, property(getGroupName)
    _set_group_desc, group_desc = setGroupDesc, property(getGroupDesc)

    def get_group_store(self):
        return self.store

    def _get_backend(self, device):
        return self

    get_backend = _get_backend
    supports_splitting = True
    supports_coalescing = supports_shrinking = False

    @property
    def _device_types(self):
        return self.devices  # none while torch makes the group, since it would attach hooks to its backend

    def finish_creation(self):
        self.devices = [torch.device("cpu")] + ([torch.device("cuda")] if torch.cuda.is_available() else [])

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return self.calls

    def split_group(self, new_ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        """Returns a group of these ranks, of which this one is a member; None if it is not."""
        if self.me not in new_ranks:
            return None
        limit = timeout if timeout is not None else dist.distributed_c10d.default_pg_timeout
        group = MpiGroup(subset(self.base, new_ranks, group_name), group_name, limit, self.store)
        group._set_group_name(group_name)
        group._set_group_desc(group_desc or "")
        group.finish_creation()
        return group

    # ---- how calls are made ----

    @property
    def comm(self):
        """The communicator of the lane whose action this thread makes."""
        return here.comm

    def lane(self):
        """Returns the lane of the collectives that this thread calls."""
        depth = getattr(here, "depth", 0)
        while depth >= len(self.lanes):
            deeper = len(self.lanes)
            self.lanes.append(Lane(self.label, deeper, lambda: self.copy(deeper)))
        return self.lanes[depth]

    def copy(self, depth):
        """Makes a communicator of the same ranks, for collectives that callbacks call."""
        comm = subset(self.base, range(self.ranks), f"{self.label} {depth}")
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        return comm

    def collective(self, name, action, outputs, tensors, options=None):
        """Makes a collective. `action` makes the MPI calls; it detaches the tensors, all of which are in `tensors`."""
        if self.broken:
            raise self.broken
        self.calls += 1
        events = []
        for device in sorted({tensor.device for tensor in tensors if tensor.is_cuda}, key=str):
            events.append(torch.cuda.Event())
            events[-1].record(torch.cuda.current_stream(device))
        lane = self.lane()
        work = Collective(f"{name} of group {self.label}", action, outputs, events, lane)
        lane.add(work, waits=not getattr(options, "asyncOp", True))
        if work.has_ended and work.error is not None:
            raise work.error
        return work

    def under_way(self):
        """Returns the work that is in MPI, and for how many seconds; None, 0 if there is none."""
        return max((lane.under_way() for lane in self.lanes), key=lambda call: call[1])

    def give_up(self, why):
        """Ends all calls by an error. A thread stays in MPI, so that the job ends with this rank."""
        if any(lane.inline for lane in self.lanes):
            job.abort(why)
        if not self.broken:
            self.broken = RuntimeError(f"sparseshim: {why}")
            for lane in self.lanes:
                lane.give_up(self.broken)

    def stop(self):
        for lane in self.lanes:
            lane.stop()

    def shutdown(self):
        """Frees the communicators; on all ranks of the group, in one order (destroy_process_group)."""
        if self not in job.groups:
            return
        self.stop()
        if not self.broken:
            job.groups.remove(self)
            self.broken = RuntimeError(f"sparseshim: group {self.label} is destroyed")
            for comm in [self.base, *(lane.comm for lane in self.lanes if lane.depth and lane.comm)]:
                comm.Free()

    def abort(self):
        job.abort(f"group {self.label} is aborted")

    # ---- sums ----

    def allreduce(self, tensors, opts=None):
        return self.sum_all("all_reduce", tensors, opts, caller(1) if len(tensors) == 1 else None)

    def allreduce_coalesced(self, tensors, opts=None):
        return self.sum_all("all_reduce_coalesced", tensors, opts, None)

    def sum_all(self, name, tensors, opts, by):
        """by: the part of DDP that calls. The ranks of a sum may have different ones (join()), but either all or none,
        and make the same MPI call."""
        total = Reduction(operator_of(opts), self.ranks, name)

        def action():
            for tensor in tensors:
                wide = self.buckets.meet(tensor) if total.is_sum and by == REDUCER else None
                in_halves = total.is_sum and tensor.dtype in HALVES and tensor.numel() >= HALF_SUM
                if in_halves and not (by and active()):
                    self.sum_halves(tensor)
                else:
                    self.sum_one(tensor, total, wide)

        return self.collective(name, action, tensors, tensors, opts)

    def sum_one(self, tensor, total, wide):
        """Sums a tensor over the ranks, in place; in `wide` if it is given."""
        row = total.prepare(tensor) if wide is None else wide.copy_(tensor.detach())
        self.comm.Allreduce(MPI.IN_PLACE, typed(row), total.of(row))
        total.finish(row, tensor)

    def sum_halves(self, tensor):
        """Sums 16-bit elements, each part on one rank in 32 bits, so that 16 bits travel."""
        output = Output(tensor, keep=True)
        row = self.on_host(output.flat).view(-1)
        parts = row.tensor_split(self.ranks)
        counts = [2 * part.numel() for part in parts]
        mine = parts[self.me].numel()
        theirs = torch.empty((self.ranks, mine), dtype=row.dtype, device="cpu")
        self.comm.Alltoallv([raw(row)[0], counts, MPI.BYTE], [raw(theirs)[0], [2 * mine] * self.ranks, MPI.BYTE])
        total = theirs[0].float()
        for part in theirs[1:]:
            total += part
        total = total.to(row.dtype)
        self.comm.Allgatherv(raw(total), [raw(row)[0], counts, MPI.BYTE])
        if row.data_ptr() != output.flat.data_ptr():
            output.flat.view(-1).copy_(row)
        output.back()

    def reduce(self, tensors, opts=None):
        total, root = Reduction(opts.reduceOp, self.ranks, "reduce"), opts.rootRank

        def action():
            for tensor in tensors:
                row = total.prepare(tensor)
                if self.me != root:
                    self.comm.Reduce(typed(row), None, total.of(row), root)
                    continue
                self.comm.Reduce(MPI.IN_PLACE, typed(row), total.of(row), root)
                total.finish(row, tensor)

        return self.collective("reduce", action, tensors, tensors, opts)

    def scatter_sums(self, output, row, total):
        """Sums a row over the ranks; each keeps its part, all of one size."""
        part = output.detach()
        begin, end = row.data_ptr(), row.data_ptr() + row.numel() * row.element_size()
        if row.dtype != part.dtype or not part.is_contiguous() or begin <= part.data_ptr() < end:
            part = torch.empty(part.shape, dtype=row.dtype, device=row.device)
        sent = typed(row)
        sent[1] = part.numel()  # of a block, as mpi4py wants it
        self.comm.Reduce_scatter_block(sent, typed(part), total.of(row))
        total.finish(part, output)

    def reduce_scatter(self, outputs, input_lists, opts=None):
        total = Reduction(operator_of(opts), self.ranks, "reduce_scatter")
        for output, parts in zip(outputs, input_lists):
            check("reduce_scatter", [output, *parts], (len(parts), self.ranks), (output.numel(), parts[self.me].numel()))

        def action():
            for output, parts in zip(outputs, input_lists):
                counts = [part.numel() for part in parts]
                row = total.prepare(join(parts))
                if len(set(counts)) == 1:
                    self.scatter_sums(output, row, total)
                    continue
                part = torch.empty(output.numel(), dtype=row.dtype, device=row.device)
                self.comm.Reduce_scatter(typed(row), typed(part), counts, total.of(row))
                total.finish(part, output)

        return self.collective("reduce_scatter", action, outputs, [*outputs, *sum(input_lists, [])], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        total = Reduction(operator_of(opts), self.ranks, "reduce_scatter_single")
        for output, tensor in zip(outputs, inputs):
            check("reduce_scatter_single", [output, tensor], (tensor.numel(), self.ranks * output.numel()))

        def action():
            for output, tensor in zip(outputs, inputs):
                self.scatter_sums(output, total.prepare(tensor), total)

        return self.collective("reduce_scatter_single", action, outputs, [*outputs, *inputs], opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter_single(self, output, input, opts=None):
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    _reduce_scatter_base = reduce_scatter_single

    # ---- data ----

    @staticmethod
    def on_host(tensor):
        return tensor.to("cpu") if tensor.is_cuda else tensor

    @staticmethod
    def row_for(tensors):
        """Returns host memory for the elements of all tensors."""
        return torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype, device="cpu")

    def broadcast(self, tensors, opts=None):
        root = opts.rootRank if opts is not None else 0

        def action():
            for tensor in tensors:
                output = Output(tensor, keep=self.me == root)
                row = self.on_host(output.flat)
                self.comm.Bcast(raw(row), root)
                if row is not output.flat and self.me != root:
                    output.flat.copy_(row)
                if self.me != root:
                    output.back()

        return self.collective("broadcast", action, tensors, tensors, opts)

    def allgather(self, outputs, inputs, opts=None):
        for parts, tensor in zip(outputs, inputs):
            check("all_gather", [tensor, *parts], (len(parts), self.ranks), (parts[self.me].numel(), tensor.numel()))

        def action():
            for parts, tensor in zip(outputs, inputs):
                sent, row = self.on_host(flat(tensor)), self.row_for(parts)
                counts = [part.numel() * part.element_size() for part in parts]
                if len(set(counts)) == 1:
                    self.comm.Allgather(raw(sent), raw(row))
                else:
                    self.comm.Allgatherv(raw(sent), [raw(row)[0], counts, MPI.BYTE])
                deal(row, parts)

        return self.collective("all_gather", action, outputs, [*sum(outputs, []), *inputs], opts)

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        return self.allgather([[parts[i] for parts in output_lists] for i in range(len(inputs))], inputs, opts)

    def gather_into(self, output, tensor):
        """Gathers tensors of one size in the order of the ranks."""
        into, sent = Output(output, keep=False), flat(tensor)
        row = into.flat if not into.flat.is_cuda else self.row_for([into.flat])
        size, at, begin = sent.numel() * sent.element_size(), sent.data_ptr(), row.data_ptr()
        in_place = at == begin + self.me * size  # FSDP2: the part of this rank lies where it belongs
        if begin < at + size and at < begin + self.ranks * size:
            sent = sent.clone()  # MPI forbids aliases
        sent = self.on_host(sent)
        self.comm.Allgather(MPI.IN_PLACE if in_place else raw(sent), raw(row))
        if row is not into.flat:
            into.flat.view(-1).copy_(row)
        into.back()

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        for output, tensor in zip(outputs, inputs):
            check("all_gather_single", [output, tensor], (output.numel(), self.ranks * tensor.numel()))

        def action():
            for output, tensor in zip(outputs, inputs):
                self.gather_into(output, tensor)

        return self.collective("all_gather_single", action, outputs, [*outputs, *inputs], opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def all_gather_single(self, output, input, opts=None):
        return self.all_gather_single_coalesced([output], [input], opts)

    _allgather_base = all_gather_single

    def gather(self, outputs, inputs, opts=None):
        root = opts.rootRank
        if self.me == root:
            check("gather", [*inputs, *outputs[0]], ([part.numel() for part in outputs[0]], [inputs[0].numel()] * self.ranks))

        def action():
            sent = self.on_host(flat(inputs[0]))
            if self.me != root:
                self.comm.Gather(raw(sent), None, root)
                return
            row = self.row_for(outputs[0])
            self.comm.Gather(raw(sent), raw(row), root)
            deal(row, outputs[0])

        return self.collective("gather", action, outputs, [*sum(outputs, []), *inputs], opts)

    def scatter(self, outputs, inputs, opts=None):
        root = opts.rootRank
        if self.me == root:
            check("scatter", [*outputs, *inputs[0]], ([part.numel() for part in inputs[0]], [outputs[0].numel()] * self.ranks))

        def action():
            row, sent = self.row_for(outputs), self.on_host(join(inputs[0])) if self.me == root else None
            self.comm.Scatter(None if sent is None else raw(sent), raw(row), root)
            deal(row, outputs)

        return self.collective("scatter", action, outputs, [*outputs, *sum(inputs, [])], opts)

    def exchange(self, sent, sent_counts, received, received_counts):
        """Exchanges parts of all sizes; counts are in elements."""
        size = sent.element_size()
        self.comm.Alltoallv([raw(sent)[0], [size * count for count in sent_counts], MPI.BYTE],
                            [raw(received)[0], [size * count for count in received_counts], MPI.BYTE])

    def alltoall(self, outputs, inputs, opts=None):
        check("all_to_all", [*outputs, *inputs], (len(outputs), self.ranks), (len(inputs), self.ranks),
              (outputs[self.me].numel(), inputs[self.me].numel()))

        def action():
            row = self.row_for(outputs)
            self.exchange(self.on_host(join(inputs)), [part.numel() for part in inputs],
                          row, [part.numel() for part in outputs])
            deal(row, outputs)

        return self.collective("all_to_all", action, outputs, [*outputs, *inputs], opts)

    def all_to_all_single(self, output, input, output_split_sizes=None, input_split_sizes=None, opts=None):
        def counts(tensor, splits):
            rows = tensor.shape[0] if tensor.dim() else 1
            splits = splits or [rows // self.ranks] * self.ranks
            check("all_to_all_single", [output, input], (len(splits), self.ranks), (sum(splits), rows))
            return [tensor.numel() // max(rows, 1) * part for part in splits]

        sent, received = counts(input, input_split_sizes), counts(output, output_split_sizes)
        check("all_to_all_single", [], (received[self.me], sent[self.me]))

        def action():
            row = self.row_for([output])
            self.exchange(self.on_host(flat(input)), sent, row, received)
            deal(row, [output])

        return self.collective("all_to_all_single", action, [output], [output, input], opts)

    alltoall_base = all_to_all_single

    def barrier(self, opts=None):
        return self.collective("barrier", lambda: self.comm.Barrier(), [], [], opts)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        self.barrier().wait(timeout)

    # ---- messages ----

    def message(self, name, start, tensors, peers, after=None):
        if self.broken:
            raise self.broken
        try:
            request = start()
        except MPI.Exception as error:
            raise RuntimeError(f"sparseshim: MPI error in {name} of group {self.label}: {error}") from None
        peers = [self.world_ranks[peer] for peer in peers]
        return Message(f"{name} of group {self.label}", request, tensors, self.limit, peers, after)

    def send(self, tensors, to, tag=0):
        sent = self.on_host(flat(tensors[0]))
        return self.message("send", lambda: self.base.Isend(raw(sent), to, tag), [sent], [to])

    def recv(self, tensors, source, tag=0, peers=None):
        row = self.row_for(tensors) if tensors[0].is_cuda or not tensors[0].is_contiguous() else tensors[0].detach()
        after = None if row.data_ptr() == tensors[0].data_ptr() else lambda: deal(row, tensors)
        return self.message("recv", lambda: self.base.Irecv(raw(row), source, tag), tensors,
                            [source] if peers is None else peers, after)

    def recv_anysource(self, tensors, tag=0):
        return self.recv(tensors, MPI.ANY_SOURCE, tag, peers=[])


def subset(comm, ranks, name):
    """Returns a communicator of some ranks; they alone call. The name keeps apart what they make at the same time."""
    return comm.Create_group(comm.group.Incl(list(ranks)), zlib.crc32(str(name).encode()) & 0x7fff)


world = []  # the communicator of the default group, in the order of its ranks


def create(options, _=None):
    """Makes a group for torch, on its members."""
    ranks = list(options.global_ranks_in_group)
    if ranks:
        comm = subset(world[0], ranks, options.group_id)
    elif options.group_size == job.WORLD.size:
        comm = job.WORLD.Split(0, options.group_rank)
        world[:] = [comm]
        job.state["store"] = options.store
    else:
        raise RuntimeError(f"sparseshim: world_size is {options.group_size}, and mpirun started {job.WORLD.size} ranks")
    return MpiGroup(comm, options.group_id, options.timeout, options.store)


dist.Backend.register_backend(NAME, create, extended_api=True,
                              **({"devices": ["cpu", "cuda"]} if TORCH >= (2, 0) else {}))
