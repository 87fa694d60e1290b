/* device/suggest.h - which devices an unknown name was probably meant to be */
#ifndef PLM_DEVICE_SUGGEST_H
#define PLM_DEVICE_SUGGEST_H

#include <stddef.h>

#include "base/arena.h"

/*
 * suggest_devices() - "'h100', 'h100-nvl' or 'h100-pcie'" for h100-80 or "NVIDIA H100"; NULL when nothing is near
 *
 * Those of the same family (what stands before the name's first '-') that go on alike the longest, or else the nearest name.
 */
const char *suggest_devices(const char *word,
                            const char *const *names,
                            size_t name_count,
                            struct arena *arena);

#endif
