"""Calls on their way: collectives in a thread of their group, messages as MPI requests."""
import collections
import queue
import threading
import time

import torch
import torch.distributed as dist
from mpi4py import MPI

from . import job

POLL = 1e-3  # the longest sleep between two tests of a message, in seconds


class Collective(dist._Work):
    """A collective from its call to its end. `outputs` are the tensors of its future."""

    def __init__(self, name, action, outputs, events):
        super().__init__()
        self.name, self.action, self.outputs, self.events = name, action, outputs, events
        self.ended, self.error, self.future = threading.Event(), None, None
        self.lock = threading.Lock()

    def run(self):
        """Makes the MPI calls. Returns the error, which names the call; None if there is none."""
        try:
            for event in self.events:
                event.synchronize()
            with torch.no_grad():
                self.action()
            for event in self.events:
                torch.cuda.current_stream(event.device).synchronize()
        except MPI.Exception as error:
            return RuntimeError(f"sparseshim: MPI error in {self.name}: {error}")
        except Exception as error:
            return type(error)(f"sparseshim: {self.name}: {error}")
        return None

    def finish(self, error):
        """Ends the work, unless it has ended."""
        with self.lock:
            if self.ended.is_set():
                return
            self.error, self.action = error, None
            self.ended.set()
            future = self.future
        if future is not None:
            finisher.put(self)

    def complete(self):
        """Completes the future; what waits for it runs here."""
        if self.error is None:
            self.future.set_result(self.outputs)
        else:
            self.future.set_exception(self.error)

    def get_future(self):
        with self.lock:
            if self.future is not None:
                return self.future
            devices = sorted({event.device for event in self.events}, key=str)
            self.future = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
            ended = self.ended.is_set()
        if ended:
            self.complete()
        return self.future

    def wait(self, timeout=None):
        seconds = timeout.total_seconds() if timeout is not None else 0
        if not self.ended.wait(seconds if seconds > 0 else None):
            raise RuntimeError(f"sparseshim: {self.name} took longer than the timeout of {seconds:g} s")
        if self.error is not None:
            raise self.error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self.ended.is_set()

    def is_success(self):
        return self.ended.is_set() and self.error is None

    def exception(self):
        return self.error

    def result(self):
        return self.outputs


class Lane:
    """Makes the collectives of one group in the order of their calls: in a thread of its own, or, if none is under
    way, in the thread of a caller that would wait anyway."""

    def __init__(self, name):
        self.name, self.todo, self.thread = name, queue.SimpleQueue(), None
        self.turn = threading.Lock()  # held during MPI calls
        self.waiting = collections.deque()  # of the thread, the running one included
        self.running, self.since = None, 0.0
        self.inline = False
        self.recent = collections.deque(maxlen=256)  # torch 1.13 frees the Python half of a Work too early

    def add(self, work, waits):
        self.recent.append(work)
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

    def serve(self):
        while True:
            work = self.todo.get()
            if work is None:
                return
            with self.turn:
                self.make(work, self.waiting.popleft)

    def make(self, work, before_end=None):
        error = None
        if not work.ended.is_set():  # else it was given up
            self.running, self.since = work, time.monotonic()
            error = work.run()
            self.running = None
        if before_end:
            before_end()
        work.finish(error)

    def under_way(self):
        """Returns the name of the call that is in MPI, and since how many seconds; None, 0 if there is none."""
        running, since = self.running, self.since
        return (running.name, time.monotonic() - since) if running is not None else (None, 0)

    def give_up(self, error):
        """Ends all calls by an error, for a thread that does not return from MPI."""
        for work in list(self.waiting):
            work.finish(error)

    def stop(self):
        """Waits until all calls are made, and ends the thread."""
        if self.thread is not None:
            self.todo.put(None)
            self.thread.join()
            self.thread = None


class Finisher:
    """Threads that complete futures, in the order of the collectives. A callback may wait for a later collective,
    whose future another thread then completes."""

    def __init__(self):
        self.todo, self.lock, self.idle = queue.SimpleQueue(), threading.Lock(), 0

    def put(self, work):
        self.todo.put(work)
        with self.lock:
            self.idle -= 1
            if self.idle < 0:
                self.idle += 1
                threading.Thread(target=self.serve, name="sparseshim futures", daemon=True).start()

    def serve(self):
        while True:
            self.todo.get().complete()
            with self.lock:
                self.idle += 1


finisher = Finisher()


class Message(dist._Work):
    """A send or receive. `after` is called when it has ended."""

    def __init__(self, name, request, tensors, limit, peers, after=None):
        """peers: ranks of the world that it may wait for."""
        super().__init__()
        self.name, self.request, self.tensors, self.after = name, request, tensors, after
        self.limit, self.peers = limit, peers
        self.status = MPI.Status()

    def test(self):
        try:
            if self.request is not None and self.request.Test(self.status):
                self.request = None
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
