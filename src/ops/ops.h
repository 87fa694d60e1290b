/*
 * ops/ops.h - the behaviour behind each row of ops.def
 *
 * One function a row, op_<name>, in the file of its family; the table is made by ops.c, so that a missing function is a
 * link error. It says, in order, what PyTorch's operator allocates, saves and frees.
 */
#ifndef PLM_OPS_OPS_H
#define PLM_OPS_OPS_H

#include "ghost/autograd.h"

/* struct context_ring - this rank's place in context parallelism; a size of 0 or 1: there is none */
struct context_ring {
    int64_t size, rank;
    bool all_to_all; /* keys and values go from rank to rank; otherwise they are gathered at once */
};

/* struct op_args - one call of an operator */
struct op_args {
    enum op_kind op;
    uint32_t in_count, attr_count, out_count;
    struct tensor *const *in; /* [in_count], borrowed; NULL for `none` and for what was left out */
    const struct attr *attrs; /* [attr_count] */
    const struct op_owner *owner;
    enum shard shard; /* how tensor parallelism splits its weight, over @ranks */
    int64_t ranks;
    bool
        sequence_parallel; /* Megatron's: between split layers each rank has a part of the sequence */
    struct context_ring ring;
};

/* struct op_owner - who gives an operator its parameters */
struct op_owner {
    /*
     * The @index-th parameter (or buffer) of the node: "weight" of these sizes. Borrowed. It is made when
     * the model is loaded, with the sizes that its operator names then.
     */
    struct tensor *(*parameter)(const struct op_owner *owner,
                                unsigned index,
                                const char *name,
                                bool buffer,
                                enum dtype dtype, /* DTYPE_PRECISION: follows the run's precision */
                                unsigned dims,
                                const int64_t *sizes);
};

/* op_call() - run an operator: casts as autocast demands, counts, and calls the row's function; ret[out_count], owned */
void op_call(struct ghost *g, const struct op_args *args, struct tensor **ret);

/* op_apply() - the same for operators that are made of others: one output, inputs only by position */
struct tensor *op_apply(struct ghost *g,
                        enum op_kind op,
                        struct tensor *const *in,
                        uint32_t in_count,
                        const struct attr *attrs,
                        uint32_t attr_count);

/* Attributes. The loader has checked that required ones are there and of their type. */
const struct attr *op_attr(const struct op_args *args, enum attr_key key); /* NULL: absent */
int64_t op_int(const struct op_args *args, enum attr_key key); /* INT, BOOL, WORD (its index) */
/* op_dtype() - the DTYPE attribute, `precision` resolved; DTYPE_COUNT when it is absent */
enum dtype op_dtype(const struct ghost *g, const struct op_args *args);
double op_real(const struct op_args *args, enum attr_key key);
/* op_ints() - exactly @count numbers, one for all when the model gives one; halts the run otherwise */
void op_ints(
    struct ghost *g, const struct op_args *args, enum attr_key key, unsigned count, int64_t *ret);

/* op_own_parameter(), op_own_buffer() - of the node, by its place among them */
struct tensor *op_own_parameter(const struct op_args *args,
                                unsigned index,
                                const char *name,
                                unsigned dims,
                                const int64_t *sizes);
struct tensor *op_own_buffer(const struct op_args *args,
                             unsigned index,
                             const char *name,
                             enum dtype dtype,
                             unsigned dims,
                             const int64_t *sizes);

typedef void op_function(struct ghost *g, const struct op_args *args, struct tensor **ret);

#define OP(ID, name, least, most, outputs, owns, cast, help) op_function op_##name;
#include "opdef/ops.def"
#undef OP

#endif
