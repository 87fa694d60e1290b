/*
 * plan/requests.c - the allocator's requests of the device, from the schedule
 *
 * Expandable segments gain and lose memory in ranges; those are cut into pages, each a request of its own, so that what is given back is
 * always one earlier request.
 */
#include "plan/requests.h"

/* struct held - what is held now, by its address in the allocator's model */
struct held {
    plm_bytes address;
    uint32_t request;
};

struct notes {
    struct simulation *sim;
    const struct replay *replay;
    struct plm_request *items;
    size_t count, capacity;
    struct held *held;
    size_t held_count, held_capacity;
};

static void add(struct notes *notes, struct plm_request request)
{
    request.phase = (uint32_t)simulation_phase_at(notes->sim, notes->replay->event);
    arena_push(&notes->sim->arena, notes->items, notes->count, notes->capacity, request);
}

static void take(struct notes *notes,
                 enum plm_request_kind kind,
                 plm_bytes address,
                 plm_bytes bytes)
{
    struct held held = { .address = address, .request = (uint32_t)notes->count };

    arena_push(&notes->sim->arena, notes->held, notes->held_count, notes->held_capacity, held);
    add(notes, (struct plm_request){ .kind = kind, .bytes = bytes });
}

/* give() - the newest are looked at first: they are most often what goes */
static void give(struct notes *notes, enum plm_request_kind kind, plm_bytes address)
{
    for (size_t i = notes->held_count; i-- > 0;)
        if (notes->held[i].address == address) {
            uint32_t of = notes->held[i].request;

            notes->held[i] = notes->held[--notes->held_count];
            add(notes,
                (struct plm_request){ .kind = kind, .bytes = notes->items[of].bytes, .of = of });
            return;
        }
}

static void note(
    void *user, enum memory_device_event event, plm_bytes address, plm_bytes bytes, uint16_t stream)
{
    struct notes *notes = user;

    switch (event) {
    case MEMORY_SEGMENT_ALLOC:
        take(notes, PLM_REQUEST_ALLOC, address, bytes);
        break;
    case MEMORY_SEGMENT_FREE:
        give(notes, PLM_REQUEST_FREE, address);
        break;
    case MEMORY_SEGMENT_MAP:
        for (plm_bytes at = 0; at < bytes; at += MEMORY_PAGE)
            take(notes, PLM_REQUEST_MAP, address + at, MEMORY_PAGE);
        break;
    case MEMORY_SEGMENT_UNMAP:
        for (plm_bytes at = 0; at < bytes; at += MEMORY_PAGE)
            give(notes, PLM_REQUEST_UNMAP, address + at);
        break;
    }
}

bool requests_of(struct simulation *sim, const struct plm_request **ret_requests, size_t *ret_count)
{
    struct replay replay = { 0 };
    struct notes notes = { .sim = sim, .replay = &replay };

    if (sim->memory_options.settings.backend != MEMORY_NATIVE)
        return false;
    memory_reset(sim->memory, sim->memory_options.capacity, sim->memory_options.device_total);
    memory_watch(sim->memory, note, &notes);
    replay_start(&replay, &sim->schedule, sim->memory, &sim->arena);
    /* where the run is out of memory, so are the requests at their end */
    bool finished = replay_run(&replay, sim->schedule.event_count);

    (void)finished;
    memory_watch(sim->memory, NULL, NULL);
    *ret_requests = notes.items;
    *ret_count = notes.count;
    return true;
}
