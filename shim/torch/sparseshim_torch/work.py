"""Calls on their way: collectives in a thread of their group, messages as MPI requests."""
import collections
import contextlib
import queue
import threading
import time

import torch
import torch.distributed as dist
from mpi4py import MPI

from . import job

here = threading.local()  # depth: of the collectives that this thread calls; comm: of the lane whose call it makes
KEEPS_WORKS = 2, 15  # 1.13 and 2.5 free the Python half of a Work too early: C++ waits for ever. 2.8: not seen
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
POLL = 1e-3  # the longest sleep between two tests of a message, in seconds


@contextlib.contextmanager
def at_depth(depth):
    before = getattr(here, "depth", 0)
    here.depth = depth
    try:
        yield
    finally:
        here.depth = before


class Future(torch.futures.Future):
    """Of a collective of some depth. Callbacks call theirs one deeper, in whatever thread they run."""

    def __init__(self, depth, devices):
        super().__init__(**({"devices": devices} if devices else {}))
        self.depth, self.on = depth, devices

    def add_done_callback(self, callback):
        def run(_):
            with at_depth(self.depth + 1):
                callback(self)

        super().add_done_callback(run)

    def then(self, callback):
        after = Future(self.depth, self.on)

        def run(_):
            try:
                after.set_result(callback(self))
            except Exception as error:
                after.set_exception(error)

        self.add_done_callback(run)
        return after


class Collective(dist._Work):
    """A collective from its call to its end. `outputs` are the tensors of its future."""

    def __init__(self, name, action, outputs, events, lane):
        super().__init__()
        self.lane = lane
        self.name, self.action, self.outputs, self.events = name, action, outputs, events
        self.has_ended, self.error, self.future = False, None, None
        self.end = threading.Lock()  # held until the work has ended; an Event takes ten times as long to make
        self.end.acquire()
        self.lock = self.lane.lock

    def run(self):
        """Makes the MPI calls. Returns the error, which names the call; None if there is none."""
        try:
            here.comm = self.lane.communicator()
            for event in self.events:
                event.synchronize()
            self.action()
            for event in self.events:
                torch.cuda.current_stream(event.device).synchronize()
        except MPI.Exception as error:
            return RuntimeError(f"sparseshim: MPI error in {self.name}: {error}")
        except Exception as error:
            text = f"sparseshim: {self.name}: {error}"
            try:
                return type(error)(text)
            except Exception:  # its constructor wants something else
                return RuntimeError(text)
        return None

    def finish(self, error):
        """Ends the work, unless it has ended."""
        with self.lock:
            if self.has_ended:
                return
            self.error, self.action = error, None
            self.has_ended = True
            self.end.release()
            future = self.future
        if future is not None:
            self.lane.complete(self)

    def complete(self):
        """Completes the future; what waits for it runs here."""
        if self.error is None:
            self.future.set_result(self.outputs)
        else:
            self.future.set_exception(self.error)

    def get_future(self):
        self.lane.is_waited(self)
        future = Future(self.lane.depth, sorted({event.device for event in self.events}, key=str))
        with self.lock:
            if self.future is not None:
                return self.future
            self.future, ended = future, self.has_ended
        if ended:
            self.lane.complete(self)
        return self.future

    def wait(self, timeout=None):
        seconds = timeout.total_seconds() if timeout is not None else 0
        if not self.has_ended:
            if not self.end.acquire(timeout=seconds if seconds > 0 else -1):
                raise RuntimeError(f"sparseshim: {self.name} took longer than the timeout of {seconds:g} s")
            self.end.release()
        self.lane.is_waited(self)
        if self.error is not None:
            raise self.error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self.has_ended

    def is_success(self):
        return self.has_ended and self.error is None

    def exception(self):
        return self.error

    def result(self):
        return self.outputs


class Lane:
    """Makes collectives of the group `label` in the order of their calls: in a thread of its own, or, if none is under way, in
    the thread of a caller that would wait anyway. Another thread completes their futures, in the same order.

    Callbacks of futures may call collectives, and wait for them (PowerSGD). The program does so meanwhile, and in an
    order that differs between ranks. Collectives that callbacks call therefore have a lane and a communicator of
    their own, one deeper; each lane alone has the same order on all ranks. make_comm() makes the communicator."""

    def __init__(self, label, depth, make_comm):
        name = f"sparseshim {label}, {depth} deep" if depth else f"sparseshim {label}"
        self.name, self.depth, self.make_comm, self.comm = name, depth, make_comm, None
        self.key = f"{label}/{depth}"
        self.todo, self.thread = queue.SimpleQueue(), None
        self.completing, self.completer = queue.SimpleQueue(), None
        self.turn, self.starting = threading.Lock(), threading.Lock()  # turn: held during MPI calls
        self.lock = threading.RLock()  # of the works
        self.waiting = collections.deque()  # of the thread, the running one included
        self.running, self.since = None, 0.0
        self.inline = False
        self.unwaited, self.given_up = collections.deque(maxlen=256), False

    def add(self, work, waits):
        work.number = job.count(self.key)
        if TORCH < KEEPS_WORKS:
            self.unwaited.append(work)
        if waits and not self.waiting and self.turn.acquire(blocking=False):
            try:
                self.inline = True
                self.make(work)
            finally:
                self.inline = False
                self.turn.release()
            return
        self.waiting.append(work)
        self.todo.put(work)
        if self.thread is None:
            self.thread = threading.Thread(target=self.serve, name=self.name, daemon=True)
            self.thread.start()

    def is_waited(self, work):
        """Drops a work that is kept for a wait from C++."""
        if work in self.unwaited:
            self.unwaited.remove(work)

    def serve(self):
        for work in iter(self.todo.get, None):
            with self.turn:
                self.make(work, self.waiting.popleft)
            del work  # its tensors live no longer than it

    def make(self, work, before_end=None):
        error = None
        if not work.has_ended:  # else it was given up
            outer = getattr(here, "comm", None)
            self.running, self.since = work, time.monotonic()
            try:
                error = work.run()
            finally:
                here.comm, self.running = outer, None
        if before_end:
            before_end()
        work.finish(error)

    def complete(self, work):
        """Has the future of a work that has ended completed."""
        self.completing.put(work)
        with self.starting:
            if self.completer is None:
                self.completer = threading.Thread(target=self.complete_all, name=f"{self.name} futures", daemon=True)
                self.completer.start()

    def complete_all(self):
        here.depth = self.depth + 1
        for work in iter(self.completing.get, None):
            work.complete()
            del work  # its tensors live no longer than it

    def under_way(self):
        """Returns the work that is in MPI, and since how many seconds; None, 0 if there is none."""
        running, since = self.running, self.since
        return (running, time.monotonic() - since) if running is not None else (None, 0)

    def give_up(self, error):
        """Ends all calls by an error, for a thread that does not return from MPI."""
        self.given_up = True
        for work in list(self.waiting):
            work.finish(error)

    def stop(self):
        """Waits until all calls are made or given up, and ends the threads."""
        if self.thread is not None:
            self.todo.put(None)
            while self.thread.is_alive() and not self.given_up:
                self.thread.join(.1)
            self.thread = None
        with self.starting:
            if self.completer is not None:
                self.completing.put(None)
                self.completer = None

    def communicator(self):
        if self.comm is None:
            self.comm = self.make_comm()
        return self.comm


class Message(dist._Work):
    """A send or receive. `after` is called when it has ended. MPI uses the memory until then, even if the program
    drops the message."""

    open = set()

    def __init__(self, name, request, tensors, limit, peers, after=None):
        """peers: ranks of the world that it may wait for."""
        super().__init__()
        self.name, self.request, self.tensors, self.after = name, request, tensors, after
        self.limit, self.peers = limit, peers
        self.status = MPI.Status()
        self.open.add(self)

    def test(self):
        try:
            if self.request is not None and self.request.Test(self.status):
                self.request = None
                self.open.discard(self)
                if self.after:
                    self.after()
        except MPI.Exception as error:
            raise RuntimeError(f"sparseshim: MPI error in {self.name}: {error}") from None
        return self.request is None

    def wait(self, timeout=None):
        seconds = timeout.total_seconds() if timeout is not None else 0
        seconds = seconds if seconds > 0 else self.limit
        begin, pause, look = time.monotonic(), 0.0, job.PATIENCE
        while not self.test():
            time.sleep(pause)
            pause = min(pause + 1e-6, POLL)
            now = time.monotonic() - begin
            if now > seconds:
                raise RuntimeError(f"sparseshim: {self.name} took longer than the timeout of {seconds:g} s")
            if now > look:
                look = now + job.LOOKS
                job.raise_if_ended(self.peers, self.name)
        return True

    def is_completed(self):
        return self.test()

    is_success = is_completed

    def source_rank(self):
        return self.status.Get_source()

    _source_rank = source_rank

    def result(self):
        return self.tensors

    def get_future(self):
        self.wait()
        future = torch.futures.Future()
        future.set_result(self.tensors)
        return future
