package unpack

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/continuity/fs"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// above makes the folders above an entry that its layer doesn't name. They are as
// in the layers below.
func (l *layer) above(name string) error {
	dir, base := filepath.Split(name)
	dir, err := fs.RootPath("/", dir)
	if err != nil {
		return invalid("its layer can't be unpacked: %w", err)
	}
	if base == "" {
		dir = filepath.Dir(dir)
	}
	return l.folder(dir)
}

func (l *layer) folder(at string) error {
	info, err := os.Lstat(at)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return invalid("its layer can't be unpacked: %.200q isn't a folder", at)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if up := filepath.Dir(at); up != at {
		if err := l.folder(up); err != nil {
			return err
		}
	}
	added, err := l.unnamedFolder()
	if l.made += added; err != nil {
		return err
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if err := os.Lchown(at, 0, 0); err != nil {
		return err
	}
	for _, below := range l.below {
		fd, err := unix.Openat2(below, "."+at, &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			// It isn't a folder, and hides the lower layers' one.
			return nil //nolint:nilerr // see above
		}
		err = likeThat(at, fd)
		unix.Close(fd)
		return err
	}
	return nil
}

// likeThat gives a folder owner, mode, times and attributes of another.
func likeThat(at string, other int) error {
	var st unix.Stat_t
	if err := unix.Fstat(other, &st); err != nil {
		return err
	}
	if err := os.Lchown(at, known(int(st.Uid)), known(int(st.Gid))); err != nil {
		return err
	}
	if err := unix.Fchmodat(unix.AT_FDCWD, at, st.Mode&0o7777, 0); err != nil {
		return err
	}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(other, names)
	if err != nil {
		return nil //nolint:nilerr // it has none, or its disk has none at all
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name == "" || strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "security.") {
			continue
		}
		size, err := unix.Fgetxattr(other, name, value)
		if err == nil {
			err = unix.Lsetxattr(at, name, value[:size], 0)
		}
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENODATA) {
			return err
		}
	}
	return nil
}
