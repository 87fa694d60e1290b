/* cli/libraries.h - where a libcudnn is looked for */
#ifndef PLM_CLI_LIBRARIES_H
#define PLM_CLI_LIBRARIES_H

#include "base/arena.h"
#include "plimsoll/plimsoll.h"

/*
 * libraries_add() - tell @context which libcudnn may be asked, and where answers are kept
 *
 * @setting is --cudnn: "off" (none), a library or the folder that it is in (that one), or "auto": those that PLIMSOLL_CUDNN lists, or
 * says "off"; without it a libcudnn.so.9 in LD_LIBRARY_PATH, in an active Python or Conda environment, and in the usual folders.
 * NULL is "auto". Answers are kept in the XDG cache folder.
 */
PLM_MUST_CHECK enum plm_status libraries_add(struct plm_context *context,
                                             const char *setting,
                                             struct arena *arena,
                                             struct plm_error *reterr);

#endif
