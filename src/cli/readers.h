/* cli/readers.h - how the value of an option is read; the names are a column of options.def */
#ifndef PLM_CLI_READERS_H
#define PLM_CLI_READERS_H

#include "cli/options.h"

option_reader read_FLAG;          /* bool */
option_reader read_TEXT;          /* const char * */
option_reader read_INDEX;         /* int64_t, at least 0 */
option_reader read_PERCENT;       /* double: "95%" and "95" are 0.95; above 0, at most 100% */
option_reader read_ZERO_STAGE;    /* int64_t: the number of a word, from 1 */
option_reader read_COUNT;         /* int64_t, at least 1 */
option_reader read_POSITIVE_REAL; /* double, above 0 */
option_reader read_SIZE;          /* plm_bytes */
option_reader read_POSITIVE_SIZE; /* plm_bytes, above 0 */
option_reader read_WORD;          /* an enum, stored as unsigned: the index in the row's words */
option_reader read_STAGE;         /* const char *: one of the row's words */
option_reader read_SETTING;       /* NAME=VALUE, appended to strategy.settings */
option_reader read_CHECKPOINT;    /* none, full, every=N, group=N, sqrt, blocks=LIST, auto */
option_reader read_CONTEXT;       /* a size, with strategy.has_context */
option_reader read_WORKSPACE;     /* auto, none or a size */
option_reader read_ASSUME;        /* ghostgpu */
option_reader read_HSDP;          /* RxS: parallel.hsdp_replicate, hsdp_shard */
option_reader read_RESHARD;       /* true, false or a count */
option_reader read_SCHEDULE;      /* 1f1b, gpipe, interleaved:V or zero-bubble */
option_reader read_RANK;          /* a rank from 0, with parallel.has_rank */
option_reader read_VARY;          /* text, appended to vary */
option_reader read_PAIR;          /* const char *[2]: called for each of two words */
option_reader read_SHARE;         /* double: "2%" or "0.02" */
option_reader read_MARGIN;        /* a size, or a share of the capacity as "5%" */

#endif
