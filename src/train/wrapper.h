/*
 * train/wrapper.h - what a parallel wrapper does around the training loop
 *
 * DistributedDataParallel, fully_shard and their like do not change the loop: they are hooks, before and after modules, when
 * a gradient is ready, when a backward is over. A wrapper is a table of such functions; the loop and the executor call them and
 * know nothing else of it. Gradients that become ready are announced by ghost->accumulated, ends of a backward by
 * autograd_queue_callback(), a module's backward by autograd_hook() on its outputs.
 */
#ifndef PLM_TRAIN_WRAPPER_H
#define PLM_TRAIN_WRAPPER_H

#include "train/internal.h"

/* struct wrapped_call - a module that is called: the model, or a unit marked `wrap: true` */
struct wrapped_call {
    const struct graph_step *step;
    bool root; /* the model itself: the first call of main */
    struct value
        *args; /* [step->in_count], owned by the call: may be replaced before the forward */
    struct value *held; /* [step->in_count], what the caller's frame holds until it returns */
    struct value *ret;  /* [step->out_count], after the forward: may be replaced */
};

/* struct stage_hooks - what a pipeline's schedule asks of the stage run->stage, a module that is wrapped by itself */
struct stage_hooks {
    /* of lowered schedules: gather its parameters; wait for them, before it computes; let go of them */
    void (*unshard)(struct run *run);
    void (*await_unshard)(struct run *run);
    void (*reshard)(struct run *run);
    /* all of its backwards are over: reduce its gradients; wait for that */
    void (*reduce)(struct run *run);
    void (*await_reduction)(struct run *run);
};

struct wrapper {
    const char *mark; /* "ddp_wrap": the phase that wrap() is */
    /* create() - its state, found again as run->wrapper_state; checks that the strategy makes sense */
    enum plm_status (*create)(struct run *run, struct plm_error *reterr);
    void (*wrap)(struct run *run); /* after the model is loaded, before the optimizer is made */
    bool
        places; /* wrap() brings what is not on the device there, once it is split; others want it there */
    bool
        keeps_outputs; /* a stage of a pipeline must not let go of its outputs before their backward */
    /* Each may be NULL. */
    void (*before_optimizer)(struct run *run); /* when the script makes its optimizer */
    void (*before_forward)(struct run *run, struct wrapped_call *call);
    void (*after_forward)(struct run *run, struct wrapped_call *call);
    bool
        every_module; /* before_forward() and after_forward() are called for every `call:` in the model */
    /* around an operator that owns parameters, as a module's forward; the tensors may be replaced */
    void (*before_operator)(struct run *run,
                            const struct graph_step *step,
                            struct tensor **inputs,
                            uint32_t count);
    void (*after_operator)(struct run *run, const struct graph_step *step, struct tensor **outputs);
    void (*load_parameter)(struct run *run, size_t param); /* in place of moving it to the device */
    void (*before_backward)(struct run *run,
                            uint32_t micro); /* of the whole loss; `no_sync` is decided here */
    void (*after_backward)(struct run *run, uint32_t micro);
    void (*step)(struct run *run); /* in place of the training script's whole step */
    void (*backward)(struct run *run, struct tensor *loss); /* in place of loss.backward() */
    void (*optimize)(
        struct run *run);          /* in place of clipping, the optimizer's step and zero_grad() */
    void (*clip)(struct run *run); /* in place of torch.nn.utils.clip_grad_norm_() */
    const struct stage_hooks *stage;      /* of a pipeline */
    void (*before_step)(struct run *run); /* before clipping and the optimizer */
    void (*after_step)(struct run *run);
};

/* wrapper_choose() - the strategy's wrapper; NULL when it asks for none. Strategies that exclude each other are refused */
PLM_MUST_CHECK enum plm_status wrapper_choose(const struct plm_strategy *strategy,
                                              const struct wrapper **ret_wrapper,
                                              struct plm_error *reterr);

#endif
