package database

import (
	"bufio"
	"context"
	"os"
	"runtime/debug"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/confine"
)

// The descriptors of the process: the flist, and its answer.
const (
	fdFlist  = 0
	fdAnswer = 1
)

// mostOpen is how many descriptors the process may have: those, its errors, and what Go's runtime waits with.
const mostOpen = 32

// Serve is the process that a Reader starts. It returns its exit status.
func Serve() int { return answer(send) }

// answer does the process's work by do once it is confined, and answers.
func answer(do func(ctx context.Context, file *os.File, w *bufio.Writer) error) int {
	w := bufio.NewWriterSize(os.NewFile(fdAnswer, "answer"), 64<<10)
	err := confined()
	if err == nil {
		err = do(context.Background(), os.NewFile(fdFlist, name), w)
	}
	switch {
	case err == nil:
		err = write(w, kindEnd)
	case errors.Is(err, errWrong):
		err = write(w, kindWrong, field{bytes: []byte(clip.Within(err.Error(), mostField))})
	default:
		err = write(w, kindFailed, field{bytes: []byte(clip.Within(err.Error(), mostField))})
	}
	if err != nil || w.Flush() != nil {
		return 1
	}
	return 0
}

// confined sets this process's resource limits and installs its filter of system calls.
func confined() error {
	debug.SetMemoryLimit(Memory.Each / 2)
	limits := map[int]uint64{
		unix.RLIMIT_DATA: uint64(Memory.Each), unix.RLIMIT_CPU: uint64(Time.Each), unix.RLIMIT_NOFILE: mostOpen, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0,
	}
	if err := confine.Ceilings(limits); err != nil {
		return err
	}
	// To read at an offset, and to ask for the size of what is open.
	return confine.Seal(confine.Calls(unix.SYS_PREAD64, unix.SYS_FSTAT))
}
