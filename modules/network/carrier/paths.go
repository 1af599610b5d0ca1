package carrier

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// folder is {run}/wg.
type folder string

func folderOf(runDir string) folder { return folder(filepath.Join(runDir, "wg")) }

func (f folder) socket() string    { return filepath.Join(string(f), "socket") }
func (f folder) lock() string      { return filepath.Join(string(f), "lock") }
func (f folder) startLock() string { return filepath.Join(string(f), "start.lock") }
func (f folder) pid() string       { return filepath.Join(string(f), "pid") }
func (f folder) log() string       { return filepath.Join(string(f), "log") }

// group is the name of the control group of this folder's carrier: several
// nodes may be on one machine.
func (f folder) group() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(f))
	return "croft-wg-" + strconv.FormatUint(uint64(h.Sum32()), 16)
}

func (f folder) make() error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return errors.Wrap(err, "cannot make the carrier's folder")
	}
	return errors.Wrap(os.Chmod(string(f), 0o700), "cannot make the carrier's folder")
}

// tryLock takes a lock, or says that somebody has it (nil, nil). The kernel
// lets go of it whatever the holder dies of.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot lock %s", path)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		file.Close()
		return nil, nil
	}
	if err != nil {
		file.Close()
		return nil, errors.Wrapf(err, "cannot lock %s", path)
	}
	return file, nil
}
