/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to lib/adopt: moving pages while threads use them, a window at a time. From write
 * protection to wake-up the calling thread blocks all its signals (a handler could wait for its own
 * thread), allocates nothing, and makes system calls only.
 */
#ifndef UROCE_ADOPT_WINDOW_H
#define UROCE_ADOPT_WINDOW_H

#include "adopt_state.h"

struct window {
    uint64_t start, len, offset;
    int prot;
    bool anonymous; /* else a private view of a memfd, and every page has content */
    bool check_pins;
    bool huge;         /* it can become one huge page */
    int64_t until;     /* when the daemon resumes copying; 0: it does not copy these pages */
    uint64_t data_end; /* offset of the memfd's next hole, when the window begins below it */
};

/* The next window, at `at`; a smaller one if the daemon has to stop copying for it (guarded). */
void window_set(struct window *w, uint64_t at, uint64_t end, uint64_t offset, bool guarded);
/* Stops the daemon's copying if it copies some of these pages. False: the daemon refuses. True:
 * sets *until as in struct window, and the caller calls window_resume_copying afterwards. */
bool window_stop_copying(uint64_t start, uint64_t len, int64_t *until);
void window_resume_copying(int64_t until);
/* The signals that were blocked before, for window_restore_signals. */
uint64_t window_block_signals(void);
void window_restore_signals(uint64_t old);

#endif
