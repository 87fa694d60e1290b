/* cli/folders.h - where the program's own files are looked for */
#ifndef PLM_CLI_FOLDERS_H
#define PLM_CLI_FOLDERS_H

#include "base/arena.h"
#include "plimsoll/plimsoll.h"

/*
 * folders_add() - give @context its folders, the first that has a name wins
 *
 * Those of PLIMSOLL_MODELS, PLIMSOLL_DEVICES and PLIMSOLL_CUDNN_TABLES (lists separated by ':'), then share/plimsoll beside the program's own
 * folder; a program that was not installed has none there and takes its source's. The compiled-in data folder comes then, and
 * the user's calibrated profiles last.
 * The names are kept in @arena, which must outlive @context.
 */
void folders_add(struct plm_context *context, struct arena *arena);

/* folders_make() - the folder @path and those above it; what exists is fine */
PLM_MUST_CHECK enum plm_status folders_make(const char *path,
                                            struct arena *arena,
                                            struct plm_error *reterr);

/* folders_stand_ins() - what stands in for cuBLASLt: libexec/plimsoll beside the program's own folder, the build's, the compiled-in one */
const char *folders_stand_ins(struct arena *arena);

/* folders_profiles() - where calibrated profiles are kept: plimsoll/devices in XDG_CONFIG_HOME, or in ~/.config; NULL: neither is known */
const char *folders_profiles(struct arena *arena);

#endif
