/* support/program.c - reads a program and runs it step by step */
#include <assert.h>
#include <string.h>

#include "base/units.h"
#include "ghost/autocast.h"
#include "support/program.h"
#include "support/trace.h"

enum { MOST_VALUES = 64, MOST_ATTRS = 16, MOST_INPUTS = 16, MOST_ITEMS = 16, MOST_OWNED = 8 };

struct value {
    const char *name;
    struct tensor *tensor;
    bool input;
};

struct program {
    struct test_ghost *t;
    struct value values[MOST_VALUES];
    size_t value_count, first_event;
    bool started, permuted;
    enum dtype autocast;
    struct tensor *result;
    const char *gradient;  /* "expanded", "channels_last" or NULL */
    struct op_owner owner; /* of the one operator with parameters that a program may have */
    struct tensor *owned[MOST_OWNED];
    enum dtype own;
    bool frozen, own_channels_last;
};

/* cut_word() - the text up to one of @ends; moves @rest past it. NULL when nothing is left */
static char *cut_word(char **rest, const char *ends)
{
    char *word = *rest + strspn(*rest, ends);
    size_t length = strcspn(word, ends);

    if (length == 0)
        return NULL;
    *rest = word + length + (word[length] != '\0');
    word[length] = '\0';
    return word;
}

static struct value *find(struct program *p, const char *name)
{
    for (size_t i = p->value_count; i-- > 0;)
        if (strcmp(p->values[i].name, name) == 0)
            return &p->values[i];
    return NULL;
}

static void bind(struct program *p, const char *name, struct tensor *x, bool input)
{
    assert(p->value_count < MOST_VALUES);
    p->values[p->value_count++] = (struct value){ name, x, input };
}

static int64_t number(const char *text)
{
    int64_t value = 0;
    bool good = units_parse_int(text, &value);

    assert(good);
    (void)good;
    return value;
}

static unsigned numbers(char *text, int64_t *ret)
{
    unsigned count = 0;

    for (char *word = cut_word(&text, ","); word; word = cut_word(&text, ",")) {
        assert(count < MOST_ITEMS);
        ret[count++] = number(word);
    }
    return count;
}

static void to_channels_last(struct tensor *x)
{
    tensor_channels_last_strides(x->dims, x->sizes, x->strides);
}

/* own() - a parameter, made outside of the recorded events */
static struct tensor *own(const struct op_owner *owner,
                          unsigned index,
                          const char *name,
                          bool buffer,
                          enum dtype dtype,
                          unsigned dims,
                          const int64_t *sizes)
{
    struct program *p = (struct program *)((char *)owner - offsetof(struct program, owner));
    struct ghost *g = &p->t->ghost;
    struct schedule *schedule = g->schedule;

    (void)name;
    assert(index < MOST_OWNED);
    if (p->owned[index])
        return p->owned[index];
    g->schedule = NULL;
    struct tensor *x = tensor_new(g, dtype == DTYPE_PRECISION ? p->own : dtype, dims, sizes);

    g->schedule = schedule;
    if (p->own_channels_last && dims >= 4)
        to_channels_last(x);
    if (!buffer && !p->frozen)
        test_make_leaf(x);
    p->owned[index] = x;
    return x;
}

static struct tensor *make_input(struct program *p, bool leaf, char *rest)
{
    struct ghost *g = &p->t->ghost;
    enum dtype dtype = opdef_find_dtype(cut_word(&rest, " "));
    char *text = cut_word(&rest, " ");
    int64_t sizes[MOST_ITEMS];
    unsigned dims = strcmp(text, "scalar") == 0 ? 0 : numbers(text, sizes);
    struct tensor *x = tensor_new(g, dtype, dims, sizes);
    const char *layout = cut_word(&rest, " ");

    if (layout && strcmp(layout, "channels_last") == 0)
        to_channels_last(x);
    return leaf ? test_make_leaf(x) : x;
}

static void set_device(struct surroundings *around, const char *name)
{
    static const struct {
        const char *name;
        int cc, sm_count, threads_per_sm;
    } devices[] = {
        { "t4", 75, 40, 1024 },
        { "rtx4090", 89, 128, 1536 },
        { "h100", 90, 132, 2048 },
        { "b200", 100, 148, 2048 },
    };

    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (strcmp(devices[i].name, name) == 0) {
            around->cc = devices[i].cc;
            around->sm_count = devices[i].sm_count;
            around->threads_per_sm = devices[i].threads_per_sm;
        }
}

static void set(struct program *p, char *rest)
{
    for (char *word = cut_word(&rest, " "); word; word = cut_word(&rest, " ")) {
        char *key = cut_word(&word, "="), *value = cut_word(&word, "=");

        if (strcmp(key, "autocast") == 0)
            p->autocast = opdef_find_dtype(value);
        else if (strcmp(key, "training") == 0)
            p->t->ghost.training = number(value);
        else if (strcmp(key, "grad") == 0)
            p->t->ghost.grad_enabled = number(value);
        else if (strcmp(key, "permuted") == 0)
            p->permuted = number(value);
        else if (strcmp(key, "gradient") == 0)
            p->gradient = value;
        else if (strcmp(key, "own") == 0)
            p->own = opdef_find_dtype(value);
        else if (strcmp(key, "own_channels_last") == 0)
            p->own_channels_last = number(value);
        else if (strcmp(key, "frozen") == 0)
            p->frozen = number(value);
        else if (strcmp(key, "framework") == 0)
            p->t->ghost.around.framework = framework_find(value);
        else if (strcmp(key, "device") == 0)
            set_device(&p->t->ghost.around, value);
    }
}

static int64_t choice(const char *choices, const char *word)
{
    int64_t index = 0;
    size_t length = strlen(word);

    for (const char *c = choices; strncmp(c, word, length) != 0 || (c[length] && c[length] != '|');
         c += strcspn(c, "|") + 1)
        index++;
    return index;
}

static struct attr read_attr(struct program *p, enum op_kind op, char *key, char *value)
{
    size_t count;
    const struct attr_def *def = opdef_attrs(op, &count);

    while (count > 0 && strcmp(key_names[def->key], key) != 0)
        def++, count--;
    assert(count > 0);
    struct attr attr = { .key = (uint16_t)def->key, .type = (uint16_t)def->type };
    int64_t *items;
    bool good = true;

    switch (def->type) {
    case ATTR_INT:
    case ATTR_BOOL:
        attr.value.i = number(value);
        break;
    case ATTR_REAL:
        good = units_parse_real(value, &attr.value.real);
        break;
    case ATTR_INTS:
        items = arena_array(&p->t->arena, int64_t, MOST_ITEMS);
        attr.count = strcmp(value, "[]") == 0 ? 0 : numbers(value, items);
        attr.value.items = items;
        break;
    case ATTR_WORD:
        attr.value.i = choice(def->choices, value);
        break;
    case ATTR_DTYPE:
        attr.value.i = opdef_find_dtype(value);
        break;
    case ATTR_NAME:
        break;
    }
    assert(good);
    (void)good;
    return attr;
}

static void start(struct program *p)
{
    if (p->started)
        return;
    p->started = true;
    p->first_event = p->t->schedule.event_count;
    if (p->autocast != DTYPE_COUNT)
        autocast_enter(&p->t->ghost, p->autocast);
}

static void call(struct program *p, char *names, enum op_kind op, char *rest)
{
    struct attr attrs[MOST_ATTRS];
    struct tensor *in[MOST_INPUTS], *out[MOST_ITEMS] = { NULL };
    size_t attr_count = 0, in_count = 0, out_count = 0;
    const char *out_names[MOST_ITEMS];

    start(p);
    for (char *word = cut_word(&rest, " "); word; word = cut_word(&rest, " ")) {
        if (strchr(word, '=')) {
            char *key = cut_word(&word, "="), *value = cut_word(&word, "=");

            assert(attr_count < MOST_ATTRS);
            attrs[attr_count++] = read_attr(p, op, key, value);
        } else {
            assert(in_count < MOST_INPUTS);
            struct value *v = find(p, word);

            assert(v || strcmp(word, "none") == 0);
            in[in_count++] = v ? v->tensor : NULL;
        }
    }
    for (char *word = cut_word(&names, ","); word; word = cut_word(&names, ","))
        out_names[out_count++] = word;
    p->t->ghost.op = op;
    test_call_owned(&p->t->ghost, &p->owner, op, in, in_count, attrs, attr_count, out, out_count);
    for (size_t i = 0; i < out_count; i++) {
        struct value *old = find(p, out_names[i]);

        if (old && !old->input) { /* the name is bound anew: the old value goes now */
            tensor_drop(old->tensor);
            old->tensor = out[i];
        } else {
            bind(p, out_names[i], out[i], false);
        }
    }
    p->result = out[0];
}

static void step(struct program *p, char *text)
{
    char *word = cut_word(&text, " ");

    if (!word)
        return;
    if (strcmp(word, "set") == 0) {
        set(p, text);
        return;
    }
    char *names = cut_word(&word, ":"), *op = cut_word(&text, " ");

    if (strcmp(op, "leaf") == 0 || strcmp(op, "tensor") == 0) {
        bind(p, names, make_input(p, strcmp(op, "leaf") == 0, text), true);
        return;
    }
    enum op_kind kind = opdef_find(op);

    assert(kind != OP_COUNT);
    call(p, names, kind, text);
}

static const char *events(struct program *p, size_t first, size_t end)
{
    struct buf out = { .arena = &p->t->arena };
    struct schedule part = p->t->schedule;

    part.event_count = end;
    trace_text(&part, first, &out);
    buf_char(&out, '\0');
    trace_sort(out.text);
    return out.text;
}

static const char *describe(struct program *p)
{
    struct buf out = { .arena = &p->t->arena };
    const struct tensor *y = p->result;
    char text[TENSOR_TEXT];

    if (!y)
        return "none";
    struct tensor strides = { .dims = y->dims };

    memcpy(strides.sizes, y->strides, sizeof strides.sizes);
    buf_printf(&out, "%s %s", dtype_defs[y->dtype].name, tensor_text(y, text));
    buf_printf(&out, " %s", tensor_text(&strides, text));
    return buf_string(&out);
}

static struct tensor *make_grad(struct program *p)
{
    struct tensor *y = p->result;

    if (p->gradient && strcmp(p->gradient, "expanded") == 0) {
        TENSOR_AUTO *scalar = tensor_new_scalar(&p->t->ghost, y->dtype);

        return tensor_view(scalar, y->dims, y->sizes, (int64_t[TENSOR_DIMS]){ 0 });
    }
    if (p->gradient && strcmp(p->gradient, "channels_last") == 0) {
        struct tensor *grad = tensor_new(&p->t->ghost, y->dtype, y->dims, y->sizes);

        to_channels_last(grad);
        return grad;
    }
    if (!p->permuted || y->dims < 2)
        return tensor_new(&p->t->ghost, y->dtype, y->dims, y->sizes);
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];

    for (unsigned i = 0; i < y->dims; i++)
        sizes[i] = y->sizes[y->dims - 1 - i];
    TENSOR_AUTO *base = tensor_new(&p->t->ghost, y->dtype, y->dims, sizes);

    for (unsigned i = 0; i < y->dims; i++)
        strides[i] = base->strides[y->dims - 1 - i];
    return tensor_view(base, y->dims, y->sizes, strides);
}

/* leftover() - allocations that were never released */
static size_t leftover(const struct schedule *s)
{
    size_t count = 0;

    for (size_t i = 0; i < s->event_count; i++)
        count += s->events[i].kind == EVENT_ALLOC ? 1 : (size_t)-1;
    return count;
}

static void finish(struct program *p)
{
    tensor_drop(p->result);
    for (size_t i = 0; i < p->value_count; i++)
        if (p->values[i].input)
            tensor_drop(p->values[i].tensor);
    for (size_t i = 0; i < MOST_OWNED; i++)
        tensor_drop(p->owned[i]);
}

struct program_result program_run(struct test_ghost *t, const char *text)
{
    struct program p = {
        .t = t, .autocast = DTYPE_COUNT, .own = DTYPE_FLOAT32, .owner = { .parameter = own }
    };
    struct program_result r = { "error", "none", "none", 0 };
    char *rest = arena_copy(&t->arena, text, strlen(text));

    for (char *part = cut_word(&rest, ";"); part; part = cut_word(&rest, ";"))
        step(&p, part);
    if (t->ghost.halt == HALT_FAILED)
        return r;
    tensor_ref(p.result);
    if (p.started && p.autocast != DTYPE_COUNT)
        autocast_leave(&t->ghost);
    for (size_t i = 0; i < p.value_count; i++)
        if (!p.values[i].input)
            tensor_drop(p.values[i].tensor);
    size_t end = t->schedule.event_count;

    r.forward = events(&p, p.first_event, end);
    r.output = describe(&p);
    if (tensor_requires_grad(p.result)) {
        TENSOR_AUTO *grad = make_grad(&p);
        size_t begin = t->schedule.event_count;

        autograd_backward(&t->ghost, p.result, grad);
        r.backward = t->ghost.halt ? "error" : events(&p, begin, t->schedule.event_count);
    }
    finish(&p);
    r.leftover = leftover(&t->schedule);
    return r;
}

void program_row_test(void **state)
{
    const struct program_row *row = *state;
    struct test_ghost t;

    test_ghost_start(&t);
    struct program_result r = program_run(&t, row->program);

    if (t.ghost.halt && strcmp(row->forward, "error") != 0)
        fail_msg("%s", t.ghost.error.message);
    assert_string_equal(r.forward, row->forward);
    assert_string_equal(r.backward, row->backward);
    assert_string_equal(r.output, row->output);
    assert_int_equal(r.leftover, 0);
    test_ghost_finish(&t);
}
