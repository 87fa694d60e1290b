/* train/mesh.c - the mesh of a parallel run: its sizes, and a rank's place in it */
#include "train/mesh.h"

enum { GPUS_MOST = 1 << 20, CAPACITY_MOST = 1000 };

static int64_t at_least_1(int64_t size)
{
    return size > 1 ? size : 1;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct mesh_place mesh_sizes(const struct plm_parallel *p)
{
    struct mesh_place sizes = {
        .pipeline = at_least_1(p->pp),
        .context = at_least_1(p->cp),
        .tensor = at_least_1(p->tp),
    };
    int64_t model = sizes.pipeline * sizes.context * sizes.tensor;

    sizes.data = at_least_1(larger(p->ddp, larger(p->fsdp, p->fsdp1)));
    sizes.data = larger(sizes.data, larger(p->zero_optimizer, p->megatron));
    if (p->hsdp_shard > 0)
        sizes.data = larger(sizes.data, p->hsdp_shard * at_least_1(p->hsdp_replicate));
    sizes.data = larger(sizes.data, p->gpus / model); /* all there is of DeepSpeed's */
    return sizes;
}

/* check_size() - so that products of sizes stay far within 64 bits */
static enum plm_status check_size(const char *option, int64_t size, struct plm_error *reterr)
{
    if (size < 0 || size > GPUS_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "%s: from 1 to %d GPUs", option, GPUS_MOST);
    return PLM_OK;
}

static enum plm_status check_sizes(const struct plm_parallel *p, struct plm_error *reterr)
{
    const struct {
        const char *option;
        int64_t size;
    } sizes[] = {
        { "ddp", p->ddp },
        { "data-parallel", p->data_parallel },
        { "fsdp", p->fsdp },
        { "fsdp1", p->fsdp1 },
        { "hsdp", p->hsdp_replicate },
        { "hsdp", p->hsdp_shard },
        { "zero-redundancy", p->zero_optimizer },
        { "megatron", p->megatron },
        { "gpus", p->gpus },
        { "tp", p->tp },
        { "cp", p->cp },
        { "ep", p->ep },
        { "pp", p->pp },
    };
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !status; i++)
        status = check_size(sizes[i].option, sizes[i].size, reterr);
    if (!status)
        status = check_size("hsdp", p->hsdp_replicate * p->hsdp_shard, reterr);
    if (!status)
        status = check_size("pp × tp", at_least_1(p->pp) * at_least_1(p->tp), reterr);
    if (!status)
        status = check_size("cp × tp", at_least_1(p->cp) * at_least_1(p->tp), reterr);
    return status;
}

/* check_options() - options of a way of parallelism that is not used */
static enum plm_status check_options(const struct plm_parallel *p, struct plm_error *reterr)
{
    bool ddp = p->ddp > 0 || p->zero_optimizer > 0, fsdp1 = p->fsdp1 > 0;
    bool sharded = p->fsdp > 0 || p->hsdp_shard > 0 || fsdp1;
    const struct {
        const char *option;
        bool given, used;
        const char *needs;
    } options[] = {
        { "bucket-cap-mb", p->bucket_cap_mb > 0, ddp, "--ddp N" },
        { "gradient-as-bucket-view", p->gradient_as_bucket_view, ddp, "--ddp N" },
        { "find-unused-parameters", p->find_unused_parameters, ddp, "--ddp N" },
        { "static-graph", p->static_graph, ddp, "--ddp N" },
        { "reshard-after-forward", p->reshard != PLM_RESHARD_DEFAULT, sharded, "--fsdp N" },
        { "fsdp-param-dtype", p->param_dtype != PLM_REDUCED_DEFAULT, sharded, "--fsdp N" },
        { "fsdp-reduce-dtype", p->reduce_dtype != PLM_REDUCED_DEFAULT, sharded, "--fsdp N" },
        { "fsdp-cpu-offload", p->cpu_offload, sharded, "--fsdp N" },
        { "fsdp-no-sync", p->fsdp_no_sync, sharded, "--fsdp N" },
        { "fsdp-forward-prefetch", p->fsdp_forward_prefetch, fsdp1, "--fsdp1 N" },
        { "sequence-parallel", p->sequence_parallel, p->megatron > 0, "--megatron N" },
        { "distributed-optimizer", p->distributed_optimizer, p->megatron > 0, "--megatron N" },
        { "overlap-grad-reduce", p->overlap_grad_reduce, p->megatron > 0, "--megatron N" },
        { "recompute", p->recompute != PLM_RECOMPUTE_NONE, p->megatron > 0, "--megatron N" },
        { "recompute-layers", p->recompute_layers > 0, p->recompute == PLM_RECOMPUTE_FULL,
          "--recompute full" },
        { "recompute-method", p->recompute_method != PLM_RECOMPUTE_UNIFORM,
          p->recompute == PLM_RECOMPUTE_FULL, "--recompute full" },
        { "microbatch-group", p->microbatch_group > 0,
          p->megatron > 0 && p->schedule == PLM_SCHEDULE_INTERLEAVED,
          "--megatron N and --schedule interleaved:V" },
        { "zero-offload", p->deepspeed.offload != PLM_OFFLOAD_NONE, p->zero > 0, "--zero STAGE" },
        { "zero-bucket", p->deepspeed.reduce_bucket_size > 0, p->zero > 0, "--zero STAGE" },
        { "zero-overlap", p->deepspeed.overlap_comm != PLM_SWITCH_DEFAULT, p->zero > 0,
          "--zero STAGE" },
        { "moe-imbalance", p->moe_imbalance > 0, p->ep > 1, "--ep N" },
        { "moe-capacity-factor", p->moe_capacity_factor > 0, p->ep > 1 || p->megatron > 0,
          "--ep N, or --megatron N" },
        { "cp-rotate", p->rotate != PLM_ROTATE_ALLGATHER, p->cp > 1 && p->megatron == 0,
          p->megatron > 0
              ? "PyTorch's ring attention; Transformer Engine's has Megatron's default, p2p"
              : "--cp N" },
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].given && !options[i].used)
            return plm_fail(reterr, PLM_E_USAGE, "%s: needs %s", options[i].option,
                            options[i].needs);
    return PLM_OK;
}

/* check_load() - what makes a rank's part of the model itself is given none that is made elsewhere */
static enum plm_status check_load(const struct plm_parallel *p, struct plm_error *reterr)
{
    if (p->load == PLM_LOAD_DEVICE)
        return PLM_OK;
    if (p->megatron > 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "load: Megatron makes each rank's part of the model on the device itself");
    if (p->zero == 3)
        return plm_fail(reterr, PLM_E_USAGE,
                        "load: with --zero 3 the model is made under deepspeed.zero.Init, which "
                        "leaves each rank its part alone");
    if (p->zero > 0 && p->load == PLM_LOAD_META)
        return plm_fail(reterr, PLM_E_USAGE,
                        "load: deepspeed.initialize moves the model to the device, which fails "
                        "from the meta device; --zero 3 has its own way");
    return PLM_OK;
}

static enum plm_status share_gpus(struct plm_parallel *p, struct plm_error *reterr)
{
    struct plm_parallel chosen = *p;
    int64_t gpus = p->gpus, data;

    if (gpus <= 0)
        return PLM_OK;
    chosen.gpus = 0;
    struct mesh_place sizes = mesh_sizes(&chosen);
    int64_t model = sizes.pipeline * sizes.context * sizes.tensor;

    if (gpus % model != 0)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "gpus: %lld are not a multiple of the %lld that hold one model (tp × cp × pp)",
            (long long)gpus, (long long)model);
    data = gpus / model;
    if (data == sizes.data || p->zero > 0)
        return PLM_OK;
    if (p->data_parallel > 0)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "gpus: --data-parallel %lld is one process and says how many it has; leave out --gpus",
            (long long)p->data_parallel);
    if (sizes.data > 1)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "gpus: %lld, with %lld for each model, leave %lld for data parallelism, and "
            "another option says %lld",
            (long long)gpus, (long long)model, (long long)data, (long long)sizes.data);
    if (p->ep > 1) {
        p->fsdp = data;
        return PLM_OK;
    }
    if (p->tp > 1)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "gpus: %lld with %lld for each model leave %lld for data parallelism, which "
            "with --tp is --fsdp %lld or --megatron %lld",
            (long long)gpus, (long long)model, (long long)data, (long long)data, (long long)data);
    p->ddp = data;
    return PLM_OK;
}

/* struct other - a technique that another is not joined with, and why */
struct other {
    const char *option;
    bool given;
    const char *reason;
};

static enum plm_status check_others(const char *option,
                                    const struct other *others,
                                    size_t count,
                                    struct plm_error *reterr)
{
    for (size_t i = 0; i < count; i++)
        if (others[i].given)
            return plm_fail(reterr, PLM_E_USAGE, "--%s and --%s are not combined: %s", option,
                            others[i].option, others[i].reason);
    return PLM_OK;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* check_rows() - of experts: how many each gets */
static enum plm_status check_rows(const struct plm_parallel *p, struct plm_error *reterr)
{
    if (p->moe_capacity_factor > 0 && p->moe_imbalance > 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "moe-imbalance: with --moe-capacity-factor every rank gets as many rows");
    if (p->moe_capacity_factor < 0 || p->moe_capacity_factor > CAPACITY_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "moe-capacity-factor: above 0, and at most %d",
                        CAPACITY_MOST);
    if (p->moe_imbalance > 0 && (p->moe_imbalance < 1 || p->moe_imbalance > (double)p->ep))
        return plm_fail(reterr, PLM_E_USAGE,
                        "moe-imbalance: from 1, when all ranks get as many rows, to %lld, when "
                        "one of --ep %lld gets all",
                        (long long)p->ep, (long long)p->ep);
    return PLM_OK;
}

/* join_megatron_experts() - Megatron's, whose experts are split by --tp as the rest is: some of the ranks of --megatron */
static enum plm_status join_megatron_experts(const struct plm_parallel *p, struct plm_error *reterr)
{
    if (p->ep > 1 && p->megatron % p->ep != 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "ep: %lld must divide the %lld ranks of --megatron, of which they are some",
                        (long long)p->ep, (long long)p->megatron);
    return check_rows(p, reterr);
}

/*
 * join_experts() - what expert parallelism is joined with
 *
 * As transformers (DistributedConfig) and torchtitan (ParallelDims) have it: its ranks are those of fully_shard in one replica, with
 * those that share a batch or a sequence; as many as have the same experts shard them between each other.
 */
static enum plm_status join_experts(struct plm_parallel *p, struct plm_error *reterr)
{
    static const char reason[] =
        "transformers and torchtitan shard a model with expert parallelism "
        "by fully_shard: take --fsdp or --hsdp";
    const struct other others[] = {
        { "ddp", p->ddp > 0, reason },
        { "data-parallel", p->data_parallel > 0, reason },
        { "fsdp1", p->fsdp1 > 0, reason },
        { "zero-redundancy", p->zero_optimizer > 0, reason },
        { "zero", p->zero > 0, reason },
        { "reshard-after-forward N", p->reshard == PLM_RESHARD_TO,
          "transformers shards experts over all of their copies" },
    };

    if (p->megatron > 0)
        return join_megatron_experts(p, reterr);
    if (p->ep <= 1)
        return PLM_OK;
    enum plm_status status = check_others("ep", others, sizeof others / sizeof others[0], reterr);

    if (status)
        return status;
    int64_t model = at_least_1(p->cp) * at_least_1(p->tp);

    if (p->ep % at_least_1(p->tp) != 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "ep: %lld must be a multiple of --tp %lld, whose ranks share a batch and "
                        "have different experts",
                        (long long)p->ep, (long long)p->tp);
    if (p->fsdp == 0 && p->hsdp_shard == 0)
        p->fsdp = p->ep / common_divisor(p->ep, model);
    int64_t shards = p->hsdp_shard > 0 ? p->hsdp_shard : p->fsdp;

    if (shards * model % p->ep != 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "ep: %lld must divide the %lld ranks of %s%s, of which they are some",
                        (long long)p->ep, (long long)(shards * model),
                        p->hsdp_shard > 0 ? "a replica of --hsdp" : "--fsdp",
                        model > 1 ? ", --cp and --tp" : "");
    return check_rows(p, reterr);
}

/*
 * join_context() - what context parallelism is joined with
 *
 * Somebody must reduce the gradients of a sequence's ranks: as torchtitan and accelerate do, the mesh that gradients are reduced
 * over has them too.
 */
static enum plm_status join_context(struct plm_parallel *p, struct plm_error *reterr)
{
    const struct other others[] = {
        { "data-parallel", p->data_parallel > 0, "its replicas are in one process" },
        { "fsdp1", p->fsdp1 > 0, "take --fsdp, as torchtitan and accelerate do" },
        { "zero-redundancy", p->zero_optimizer > 0,
          "take --fsdp, as torchtitan and accelerate do" },
        { "zero", p->zero > 0, "take --fsdp, as torchtitan and accelerate do" },
    };

    if (p->cp <= 1)
        return PLM_OK;
    enum plm_status status = check_others("cp", others, sizeof others / sizeof others[0], reterr);

    if (status)
        return status;
    if (p->fsdp > 0 || p->hsdp_shard > 0 || p->megatron > 0)
        return PLM_OK;
    if (p->tp > 1)
        return plm_fail(reterr, PLM_E_USAGE,
                        "cp: with --tp the gradients of a sequence's ranks are reduced by "
                        "fully_shard: --fsdp N too, which may be 1");
    if (p->ddp == 0)
        p->ddp = 1;
    return PLM_OK;
}

enum plm_status mesh_complete(struct plm_parallel *p, struct plm_error *reterr)
{
    enum plm_status status = check_sizes(p, reterr);

    if (!status)
        status = share_gpus(p, reterr);
    if (!status)
        status = join_experts(p, reterr);
    if (!status)
        status = join_context(p, reterr);
    if (!status)
        status = check_load(p, reterr);
    return status ? status : check_options(p, reterr);
}

struct mesh_place mesh_place(const struct plm_parallel *parallel, int64_t rank)
{
    struct mesh_place sizes = mesh_sizes(parallel), place;

    place.tensor = rank % sizes.tensor;
    rank /= sizes.tensor;
    place.context = rank % sizes.context;
    rank /= sizes.context;
    place.data = rank % sizes.data;
    place.pipeline = rank / sizes.data;
    return place;
}

int64_t mesh_rank(const struct plm_parallel *parallel, struct mesh_place place)
{
    struct mesh_place sizes = mesh_sizes(parallel);

    return ((place.pipeline * sizes.data + place.data) * sizes.context + place.context) *
               sizes.tensor +
           place.tensor;
}

int64_t mesh_reduced(const struct plm_parallel *parallel, int64_t data)
{
    return data > 0 ? data * at_least_1(parallel->cp) : 0;
}

int64_t mesh_reduced_place(const struct plm_parallel *parallel)
{
    struct mesh_place place = mesh_place(parallel, parallel->rank);

    return place.data * mesh_sizes(parallel).context + place.context;
}

int64_t mesh_expert_shards(const struct plm_parallel *parallel)
{
    if (parallel->megatron > 0)
        return parallel->ep > 1 ? parallel->megatron / parallel->ep : 0;
    int64_t shards = parallel->hsdp_shard > 0 ? parallel->hsdp_shard : parallel->fsdp;

    return parallel->ep > 1
               ? mesh_reduced(parallel, shards) * at_least_1(parallel->tp) / parallel->ep
               : 0;
}

int64_t mesh_count(const struct plm_parallel *parallel)
{
    struct mesh_place sizes = mesh_sizes(parallel);

    return sizes.pipeline * sizes.data * sizes.context * sizes.tensor;
}
