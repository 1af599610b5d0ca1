// Package filelock holds a file or a folder for one process, by flock(2). It owns
// the lock file that it creates; a lock file stays when its lock is released.
package filelock

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// retryInterval is the time between two attempts of Wait and WaitFolder.
const retryInterval = 10 * time.Millisecond

// HeldError is the error of Try and TryFolder when another process, or another
// Lock of this one, holds the lock.
type HeldError struct {
	// Path is the lock file, or the folder.
	Path string
	// PID is the process that holds it as it wrote itself by WritePID; 0 when it didn't.
	PID int
}

// Error names the path, and the process where it is known.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("cannot lock %s: another process holds it", e.Path)
	}
	return fmt.Sprintf("cannot lock %s: process %d holds it", e.Path, e.PID)
}

// Held returns the HeldError in err, nil when there is none.
func Held(err error) *HeldError {
	var held *HeldError
	if errors.As(err, &held) {
		return held
	}
	return nil
}

// Lock is a lock that is held. The kernel releases it when the process ends,
// however it ends.
type Lock struct{ file *os.File }

// Try locks the file at path, which it creates with mode 0600 when there is none; it
// follows no symbolic link. A HeldError when the lock is held.
func Try(path string) (*Lock, error) {
	return try(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW)
}

// TryFolder locks a folder that exists. A HeldError when the lock is held.
func TryFolder(path string) (*Lock, error) {
	return try(path, os.O_RDONLY|unix.O_DIRECTORY)
}

// Wait is Try that waits for the holder until ctx ends; the error is then ctx's.
func Wait(ctx context.Context, path string) (*Lock, error) { return wait(ctx, path, Try) }

// WaitFolder is TryFolder that waits for the holder until ctx ends; the error is then ctx's.
func WaitFolder(ctx context.Context, path string) (*Lock, error) { return wait(ctx, path, TryFolder) }

func try(path string, flags int) (*Lock, error) {
	file, err := os.OpenFile(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot lock %s", path)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &HeldError{Path: path, PID: readPID(file)}
	} else if err != nil {
		err = errors.Wrapf(err, "cannot lock %s", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Lock{file: file}, nil
}

func wait(ctx context.Context, path string, try func(string) (*Lock, error)) (*Lock, error) {
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		lock, err := try(path)
		if Held(err) == nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Wrapf(ctx.Err(), "cannot lock %s", path)
		case <-tick.C:
		}
	}
}

// WritePID writes the number of this process into the lock file, for the HeldError
// of others. It is a courtesy: on a full disk nothing is written, and the lock holds.
func (l *Lock) WritePID() {
	if err := l.file.Truncate(0); err == nil {
		_, _ = l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

func readPID(file *os.File) int {
	b := make([]byte, 32)
	n, _ := file.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Fd is the descriptor of the locked file, for calls on it; it is the lock's own.
func (l *Lock) Fd() int { return int(l.file.Fd()) }

// Release releases the lock. It unlocks before it closes: a child that was forked
// and hasn't reached its exec shares the open file, and closing it here alone would
// leave the lock held until then.
func (l *Lock) Release() error {
	unlocked := unix.Flock(l.Fd(), unix.LOCK_UN)
	if err := l.file.Close(); err != nil {
		return errors.Wrap(err, "cannot release a lock")
	}
	return errors.Wrap(unlocked, "cannot release a lock")
}
