#!/usr/bin/env python3
"""Turn a recorded allocator trace into the text that replay-trace reads.

    convert.py RUN.json RUN.jsonl[.gz] > NAME.trace

RUN.jsonl holds an allocator event a line: a (action), addr, size, stream, phase. RUN.json tells of the run: torch,
alloc_conf, total_memory and the peaks that PyTorch reported. The text has a header of "key value" lines up to
"events", and then a line for each event:

    s, r, m, u BYTES STREAM ADDRESS   a segment is taken, returned, mapped, unmapped
    a BYTES STREAM ADDRESS            an allocation; they are numbered from 1, those that fail too
    f NUMBER                          its release
    w NUMBER                          its release, completed only by a later event (record_stream)
    o BYTES STREAM                    a request that failed, rounded
    e                                 empty_cache(), whose events in the recording have the phase "empty"
    p NAME A R PA PR                  a phase ends: allocated, reserved, and the peaks of both within it

Segment lines stand before the line of what caused them. Addresses are multiples of 512 bytes above the lowest; streams are numbered in the order of their handles.
"""
import gzip
import json
import sys

CONTEXT = 480 << 20  # what the device holds besides the allocator's memory in these runs
UNIT = 512
DEVICE = {"segment_alloc": "s", "segment_free": "r", "segment_map": "m", "segment_unmap": "u"}


def read_events(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as file:
        return [event for event in map(json.loads, file) if event["a"] != "snapshot"]


def group_of(phase):
    """The measured phase that a tag belongs to; backward runs in a thread without a tag."""
    name = phase.split(".")[-1]
    return {"load": "load", "setup": "setup", "batch": "fwd", "fwd": "fwd", "": "bwd", "bwd": "bwd",
            "opt": "opt", "zero": "end"}.get(name)


def phase_ends(events, run):
    """Index of the first event after each phase, with the phase; nothing when the run has no such phases."""
    phases = run.get("phases") or []
    if run.get("oom") or not phases:
        return {}
    starts, last = [], None
    for i, event in enumerate(events):
        group = group_of(event["phase"])
        if group is None:
            return {}
        micro = event["phase"].endswith(".batch") and last == "bwd"
        if group != last or micro:
            starts.append((i, group))
            last = group
    ends, at = {}, 0
    for phase in phases:
        name = phase["phase"].split(".")[0]
        group = {"model_load": "load", "optimizer_init": None}.get(name, "setup" if name.endswith("_wrap") else name)
        if at < len(starts) and starts[at][1] == group:
            at += 1  # otherwise the phase allocated nothing
        end = starts[at][0] if at < len(starts) else len(events)
        ends.setdefault(end, []).append(phase)
    if at < len(starts):
        return {}
    return move_batches(events, ends)


def move_batches(events, ends):
    """The batch is dropped when the step's function returns, after its last phase but still under its tag."""
    made_in, batch_frees = {}, set()
    for i, event in enumerate(events):
        if event["a"] == "alloc":
            made_in[event["addr"]] = event["phase"]
        elif event["a"].startswith("free_") and made_in.get(event["addr"], "").endswith(".batch"):
            batch_frees.add(i)
    moved = {}
    for end, phases in ends.items():
        if phases[-1]["phase"] == "end":
            while end - 1 in batch_frees:
                end -= 1
        moved.setdefault(end, []).extend(phases)
    return moved


def convert(run, events, out):
    streams = {handle: i for i, handle in enumerate(sorted({e["stream"] for e in events}))}
    lowest = min(e["addr"] for e in events if e["a"] in DEVICE)
    ends = phase_ends(events, run)
    live, count, emptying = {}, 0, False

    for key, value in (("torch", run["torch"].split("+")[0]), ("conf", run["alloc_conf"]),
                       ("total", run["total_memory"]), ("capacity", run["total_memory"] - CONTEXT),
                       ("peak_allocated", run["max_memory_allocated"]), ("peak_reserved", run["max_memory_reserved"]),
                       ("retries", run["num_alloc_retries"]), ("ooms", run["num_ooms"])):
        print(key, value, file=out)
    print("events", file=out)
    for i, event in enumerate(events):
        for phase in ends.get(i, []):
            print_phase(phase, out)
        action, phase = event["a"], event["phase"]
        if emptying and phase != "empty":
            print("e", file=out)
        emptying = phase == "empty"
        place = f'{event["size"]} {streams[event["stream"]]} {(event["addr"] - lowest) // UNIT}'
        if action in DEVICE:
            print(DEVICE[action], place, file=out)
        elif action == "alloc":
            count += 1
            live[event["addr"]] = count
            print("a", place, file=out)
        elif action == "free_requested":
            after = events[i + 1] if i + 1 < len(events) else {"a": ""}
            at_once = after["a"] == "free_completed" and after["addr"] == event["addr"]
            print("f" if at_once else "w", live.pop(event["addr"]), file=out)
        elif action == "oom":
            count += 1
            print("o", event["size"], streams[event["stream"]], file=out)
    if emptying:
        print("e", file=out)
    for phase in ends.get(len(events), []):
        print_phase(phase, out)


def print_phase(phase, out):
    step = "" if phase["step"] is None else f'{phase["step"]}.'
    print("p", step + phase["phase"], phase["allocated"], phase["reserved"], phase["peak_allocated"],
          phase["peak_reserved"], file=out)


def main():
    with open(sys.argv[1]) as file:
        run = json.load(file)
    convert(run, read_events(sys.argv[2]), sys.stdout)


if __name__ == "__main__":
    main()
