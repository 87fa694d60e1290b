/*
 * plan/nccl.c - what NCCL holds on the device beside the allocator
 *
 * Each communicator takes buffers of its own with its first collective: about linear in its channels, whose number NCCL chooses by
 * topology (github.com/NVIDIA/nccl/issues/986), and the same for every number of nodes beyond two. So there is no exact number
 * without the machine. The usual one is what NVIDIA/nccl/issues/964 measured on four A100 with NVLink for all-reduce: 544 MiB
 * for a communicator of two, 688 MiB of more. The highest is 1.6 GB for one that all-reduces (NVIDIA/nccl/issues/864); the lowest
 * is two channels (a PCIe pair) with one buffer of 10 MiB to each side, the size that NVIDIA/nccl/issues/1685 lists.
 */
#include "plan/nccl.h"
#include "train/mesh.h"

#define MIB ((plm_bytes)1 << 20)

static const struct nccl_bytes of_two = { 544 * MIB, 40 * MIB, 1526 * MIB };
static const struct nccl_bytes of_more = { 688 * MIB, 40 * MIB, 1526 * MIB };

static void add_communicator(struct nccl_bytes *sum, int64_t ranks)
{
    const struct nccl_bytes *one = ranks > 2 ? &of_more : &of_two;

    if (ranks < 2)
        return;
    sum->usual += one->usual;
    sum->low += one->low;
    sum->high += one->high;
}

struct nccl_bytes nccl_bytes(const struct plm_strategy *strategy)
{
    const struct plm_parallel *p = &strategy->parallel;
    struct nccl_bytes sum = { 0 };

    if (strategy->assume_ghostgpu)
        return sum;
    add_communicator(&sum, mesh_reduced(p, p->ddp > 0 ? p->ddp : p->zero_optimizer));
    add_communicator(&sum, p->data_parallel);
    add_communicator(&sum, mesh_reduced(p, p->fsdp));
    add_communicator(&sum, p->fsdp1);
    add_communicator(&sum, p->hsdp_replicate);
    add_communicator(&sum, mesh_reduced(p, p->hsdp_shard));
    add_communicator(&sum, p->zero > 0 ? mesh_sizes(p).data : 0);
    add_communicator(&sum, mesh_reduced(p, p->megatron));
    add_communicator(&sum, p->tp);
    add_communicator(&sum, p->cp);
    add_communicator(&sum, p->ep);
    add_communicator(&sum, mesh_expert_shards(p));
    add_communicator(&sum, p->pp);
    return sum;
}
