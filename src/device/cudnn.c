/*
 * device/cudnn.c - who answers for cuDNN: libraries, tables, and what was answered before
 *
 * The order: a library that the user chose, or that has the framework's version; the table; a library of another version.
 * Everything is guarded by one lock: answers that are known hold it for a look into a table, and a library answers one question at
 * a time.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/save.h"
#include "device/cudnn.h"
#include "device/cudnn_cache.h"
#include "device/cudnn_process.h"
#include "device/cudnn_table.h"

static const double patience_default = 20; /* seconds: a cold load of 800 MB from a slow disk */

/* struct library - one that may be asked; its process is started when it is needed */
struct library {
    const char *path;
    bool chosen;
    bool probed;  /* version and refusal are known */
    bool loads;   /* its process has loaded it */
    int version;  /* 92600 */
    bool refused; /* the process's message says why */
    struct cudnn_process process;
    /*
     * Attention is asked in a process of its own: it loads the driver's library, and where cuDNN finds that it compiles kernels for some
     * plans of convolutions, which takes seconds.
     */
    struct cudnn_process attention;
    bool attention_refused;
    const struct cudnn_planner *users[2]; /* of the process, and of that for attention */
};

struct cudnn_planner {
    struct cudnn *owner;
    struct cudnn_planner *next;
    int version; /* of the framework's cuDNN */
    struct cudnn_gpu gpu;
    struct library *library; /* NULL: none */
    struct cudnn_cache cache;
    struct cudnn_answers answers; /* of the library, also in earlier runs */
    struct cudnn_answers asked;   /* what of them was needed while recording */
    struct cudnn_table table;
    bool has_table; /* it was looked for */
    const char *refusal;
    struct cudnn_process own[2]; /* where another planner uses the library's */
};

struct cudnn {
    struct arena arena; /* holds this struct, too */
    pthread_mutex_t lock;
    struct library *libraries;
    const char **tables; /* folders */
    size_t library_count, library_capacity, table_count, table_capacity;
    const char *cache, *stand_ins; /* folders */
    bool recording;
    double patience;
    struct cudnn_planner *planners;
};

struct cudnn *cudnn_create(void)
{
    struct arena arena = { 0 };
    struct cudnn *cudnn = arena_new(&arena, struct cudnn);

    pthread_mutex_init(&cudnn->lock, NULL);
    cudnn->patience = patience_default;
    cudnn->arena = arena;
    return cudnn;
}

static void stop_own(struct cudnn_planner *p)
{
    cudnn_cache_close(&p->cache);
    cudnn_process_stop(&p->own[0]);
    cudnn_process_stop(&p->own[1]);
}

void cudnn_destroy(struct cudnn *cudnn)
{
    if (!cudnn)
        return;
    for (struct cudnn_planner *p = cudnn->planners; p; p = p->next)
        stop_own(p);
    for (size_t i = 0; i < cudnn->library_count; i++) {
        cudnn_process_stop(&cudnn->libraries[i].process);
        cudnn_process_stop(&cudnn->libraries[i].attention);
    }
    pthread_mutex_destroy(&cudnn->lock);
    struct arena arena = cudnn->arena; /* the struct itself is in there */

    arena_finish(&arena);
}

void cudnn_add_library(struct cudnn *cudnn, const char *path, bool chosen)
{
    arena_push(&cudnn->arena, cudnn->libraries, cudnn->library_count, cudnn->library_capacity,
               (struct library){ .path = arena_copy(&cudnn->arena, path, strlen(path)),
                                 .chosen = chosen });
}

void cudnn_add_tables(struct cudnn *cudnn, const char *folder)
{
    arena_push(&cudnn->arena, cudnn->tables, cudnn->table_count, cudnn->table_capacity,
               arena_copy(&cudnn->arena, folder, strlen(folder)));
}

void cudnn_set_cache(struct cudnn *cudnn, const char *folder)
{
    cudnn->cache = folder ? arena_copy(&cudnn->arena, folder, strlen(folder)) : NULL;
}

void cudnn_set_stand_ins(struct cudnn *cudnn, const char *folder)
{
    cudnn->stand_ins = arena_copy(&cudnn->arena, folder, strlen(folder));
}

void cudnn_record(struct cudnn *cudnn)
{
    cudnn->recording = true;
}

void cudnn_set_patience(struct cudnn *cudnn, double seconds)
{
    cudnn->patience = seconds;
}

/* ------------------------------------------------------------------ planners */

/* refuse() - say why a library is not asked */
static void refuse(struct cudnn_planner *p,
                   const struct library *library,
                   const struct cudnn_process *process)
{
    struct buf text = { .arena = &p->owner->arena };

    if (p->refusal)
        return;
    buf_printf(&text, "%s: %s", library->path, process->message);
    p->refusal = buf_string(&text);
}

/* start() - the library's process; false when it has none, or no longer */
static bool start(struct cudnn *cudnn, struct library *library)
{
    if (!library->refused && library->process.pid == 0)
        library->refused = !cudnn_process_start(&library->process, library->path, cudnn->stand_ins,
                                                cudnn->patience);
    return !library->refused;
}

static bool start_attention(struct cudnn *cudnn, struct library *library)
{
    if (!library->attention_refused && library->attention.pid == 0)
        library->attention_refused = !cudnn_process_start(&library->attention, library->path,
                                                          cudnn->stand_ins, cudnn->patience);
    return !library->attention_refused;
}

/* load() - have the process load the library, and see whether it plans without a GPU */
static bool load(struct cudnn *cudnn, struct library *library)
{
    if (library->loads)
        return true;
    if (!start(cudnn, library))
        return false;
    int version = cudnn_process_version(&library->process); /* 0: the process's message says why */

    library->version = version;
    library->loads = version >= CUDNN_PLANS_SINCE;
    library->refused = !library->loads;
    if (version > 0 && !library->loads)
        snprintf(library->process.message, sizeof library->process.message,
                 "cuDNN %d.%d.%d does not plan without a GPU; 9.8 and later do", version / 10000,
                 version / 100 % 100, version % 100);
    return library->loads;
}

/* probe() - is this a library that can be asked? its version is then known; kept ones are not loaded for that */
static bool probe(struct cudnn *cudnn, struct library *library)
{
    if (library->probed)
        return !library->refused;
    library->probed = true;
    library->version = cudnn_cache_version(cudnn->cache, library->path, &cudnn->arena);
    if (library->version >= CUDNN_PLANS_SINCE)
        return true;
    if (load(cudnn, library))
        cudnn_cache_keep_version(cudnn->cache, library->path, library->version, &cudnn->arena);
    return !library->refused;
}

/* is_same() - but for the patch level: the heuristics are those of a minor version */
static bool is_same(int a, int b)
{
    return a / 100 == b / 100;
}

static int apart(int a, int b)
{
    return a > b ? a - b : b - a;
}

/* choose_library() - one that was chosen, else one of the framework's version, else the nearest */
static void choose_library(struct cudnn_planner *p)
{
    struct cudnn *cudnn = p->owner;

    for (size_t i = 0; i < cudnn->library_count; i++) {
        struct library *it = &cudnn->libraries[i];

        if (!probe(cudnn, it)) {
            if (it->chosen)
                refuse(p, it, &it->process);
            continue;
        }
        if (!p->library || it->chosen ||
            apart(it->version, p->version) < apart(p->library->version, p->version))
            p->library = it;
        if (it->chosen || is_same(it->version, p->version))
            return;
    }
}

static struct cudnn_planner *find_planner(struct cudnn *cudnn,
                                          int version,
                                          const struct cudnn_gpu *gpu)
{
    for (struct cudnn_planner *p = cudnn->planners; p; p = p->next)
        if (p->version == version && p->gpu.cc == gpu->cc && p->gpu.sm_count == gpu->sm_count &&
            p->gpu.threads_per_sm == gpu->threads_per_sm)
            return p;
    return NULL;
}

static struct cudnn_planner *new_planner(struct cudnn *cudnn,
                                         int version,
                                         const struct cudnn_gpu *gpu)
{
    struct cudnn_planner *p = arena_new(&cudnn->arena, struct cudnn_planner);

    *p = (struct cudnn_planner){ .owner = cudnn, .version = version, .gpu = *gpu };
    p->answers.arena = p->asked.arena = &cudnn->arena;
    choose_library(p);
    if (p->library)
        cudnn_cache_load(&p->cache, cudnn->cache, p->library->version, gpu, &cudnn->arena,
                         &p->answers);
    p->next = cudnn->planners;
    cudnn->planners = p;
    return p;
}

struct cudnn_planner *cudnn_open(struct cudnn *cudnn, int version, const struct cudnn_gpu *gpu)
{
    pthread_mutex_lock(&cudnn->lock);
    struct cudnn_planner *p = find_planner(cudnn, version, gpu);

    if (!p)
        p = new_planner(cudnn, version, gpu);
    pthread_mutex_unlock(&cudnn->lock);
    return p;
}

void cudnn_prepare(struct cudnn *cudnn)
{
    pthread_mutex_lock(&cudnn->lock);
    for (size_t i = 0; i < cudnn->library_count; i++) {
        start(cudnn, &cudnn->libraries[i]);
        start_attention(cudnn, &cudnn->libraries[i]);
    }
    pthread_mutex_unlock(&cudnn->lock);
}

/* ------------------------------------------------------------------ answers */

static bool take(const struct cudnn_answer *answer, struct cudnn_workspaces *ret)
{
    if (!answer || answer->count == 0)
        return false;
    ret->count = answer->count;
    memcpy(ret->bytes, answer->bytes, answer->count * sizeof *ret->bytes);
    ret->blas = answer->blas;
    ret->blas_most = answer->blas_most;
    return true;
}

/*
 * process_of() - of this planner alone: cuDNN 9.26 answers for one device with what it has found for another
 *
 * The first planner takes the library's process; others start their own. A process that cannot be started is gone when it is asked.
 */
static struct cudnn_process *process_of(struct cudnn_planner *p, bool attention)
{
    struct library *library = p->library;
    struct cudnn_process *own = &p->own[attention];

    if (!library->users[attention])
        library->users[attention] = p;
    if (library->users[attention] == p)
        return attention ? &library->attention : &library->process;
    if (own->pid == 0)
        (void)cudnn_process_start(own, library->path, p->owner->stand_ins, p->owner->patience);
    return own;
}

/* ask_library() - what it has answered, or answers now */
static bool ask_library(struct cudnn_planner *p,
                        const struct cudnn_call *call,
                        struct cudnn_workspaces *ret)
{
    const struct cudnn_answer *known = cudnn_answers_find(&p->answers, call);
    struct cudnn_workspaces w = { 0 };
    bool attention = cudnn_call_is_attention(call);

    if (known)
        return take(known, ret);
    if (!(attention ? start_attention(p->owner, p->library) : load(p->owner, p->library))) {
        refuse(p, p->library, attention ? &p->library->attention : &p->library->process);
        return false;
    }
    struct cudnn_process *process = process_of(p, attention);

    switch (cudnn_process_ask(process, &p->gpu, call, &w)) {
    case CUDNN_REPLY_PLANS:
        if (w.blas != CUDNN_BLAS_LEFT_OUT) /* the next run may have what was missing */
            cudnn_cache_keep(&p->cache, call, &w);
        break;
    case CUDNN_REPLY_REFUSED:
        break;
    case CUDNN_REPLY_GONE:
        if (attention) {
            p->library->attention_refused = true;
        } else {
            p->library->refused = true;
            p->library->loads = false;
        }
        refuse(p, p->library, process);
        return false;
    }
    cudnn_answers_add(&p->answers, call, &w);
    *ret = w;
    return w.count > 0;
}

/* look_up() - in the table, which is read when it is first needed */
static bool look_up(struct cudnn_planner *p,
                    const struct cudnn_call *call,
                    struct cudnn_workspaces *ret)
{
    struct cudnn *cudnn = p->owner;
    struct plm_error error;

    if (!p->has_table && cudnn_table_find(cudnn->tables, cudnn->table_count, p->version, p->gpu.cc,
                                          &cudnn->arena, &p->table, &error) != PLM_OK) {
        struct buf text = { .arena = &cudnn->arena };

        buf_text(&text, error.message);
        p->refusal = buf_string(&text);
    }
    p->has_table = true;
    return take(cudnn_answers_find(&p->table.answers, call), ret);
}

/* is_first() - is the library asked before the table? While a table is made, what another says must not stand in for it */
static bool is_first(const struct cudnn_planner *p)
{
    return p->library &&
           (p->owner->recording || p->library->chosen || is_same(p->library->version, p->version));
}

enum cudnn_source cudnn_ask(struct cudnn_planner *planner,
                            const struct cudnn_call *call,
                            struct cudnn_workspaces *ret_workspaces)
{
    enum cudnn_source source = CUDNN_UNKNOWN;

    pthread_mutex_lock(&planner->owner->lock);
    if (is_first(planner) && ask_library(planner, call, ret_workspaces))
        source = CUDNN_LIBRARY;
    else if (look_up(planner, call, ret_workspaces))
        source = CUDNN_TABLE;
    else if (planner->library && !is_first(planner) && ask_library(planner, call, ret_workspaces))
        source = CUDNN_LIBRARY;
    if (source == CUDNN_UNKNOWN && !planner->library && planner->owner->library_count > 0)
        refuse(planner, planner->owner->libraries, &planner->owner->libraries->process);
    if (source == CUDNN_LIBRARY && planner->owner->recording &&
        ret_workspaces->blas != CUDNN_BLAS_LEFT_OUT)
        cudnn_answers_add(&planner->asked, call, ret_workspaces);
    pthread_mutex_unlock(&planner->owner->lock);
    return source;
}

int cudnn_library_version(const struct cudnn_planner *planner)
{
    return planner->library ? planner->library->version : 0;
}

int cudnn_table_version(const struct cudnn_planner *planner)
{
    return planner->table.version;
}

const char *cudnn_refusal(struct cudnn_planner *planner)
{
    pthread_mutex_lock(&planner->owner->lock);
    const char *refusal = planner->refusal;

    pthread_mutex_unlock(&planner->owner->lock);
    return refusal;
}

const char *cudnn_complaint(const struct cudnn_planner *planner)
{
    return planner->cache.complaint;
}

/* ------------------------------------------------------------------ tables */

/* merge() - the answers of @from that @to does not have */
static void merge(struct cudnn_answers *to, const struct cudnn_answers *from)
{
    for (size_t i = 0; i < from->capacity; i++) {
        struct cudnn_workspaces w = { 0 };

        if (from->slots[i].call.spatial && take(&from->slots[i], &w))
            cudnn_answers_add(to, &from->slots[i].call, &w);
    }
}

/* write_table() - the planner's answers, with those that the file has already */
static enum plm_status write_table(const struct cudnn_planner *p,
                                   const char *folder,
                                   const char *source,
                                   struct arena *arena,
                                   struct plm_error *reterr)
{
    struct buf path = { .arena = arena }, text = { .arena = arena };
    struct cudnn_table table = { .answers.arena = arena };
    int version = p->library->version, cc;
    enum plm_status status = PLM_OK;

    buf_printf(&path, "%s/%d.%d-sm%d.yaml", folder, version / 10000, version / 100 % 100,
               p->gpu.cc);
    if (access(buf_string(&path), F_OK) == 0)
        status = cudnn_table_load(buf_string(&path), arena, &table, &cc, reterr);
    if (status != PLM_OK)
        return status;
    table.version = version;
    merge(&table.answers, &p->asked);
    cudnn_table_write(&table, p->gpu.cc, source, &text);
    return save_file(buf_string(&path), buf_string(&text), text.length, reterr);
}

enum plm_status cudnn_write_tables(struct cudnn *cudnn,
                                   const char *folder,
                                   const char *source,
                                   size_t *ret_count,
                                   struct plm_error *reterr)
{
    enum plm_status status = PLM_OK;
    size_t count = 0;

    for (struct cudnn_planner *p = cudnn->planners; p && status == PLM_OK; p = p->next) {
        struct arena arena = { 0 };

        if (p->asked.count == 0)
            continue;
        status = write_table(p, folder, source, &arena, reterr);
        arena_finish(&arena);
        count++;
    }
    if (status == PLM_OK)
        *ret_count = count;
    return status;
}
