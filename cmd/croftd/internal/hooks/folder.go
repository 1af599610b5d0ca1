package hooks

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

const (
	// extension ends the names of hooks' files; others are left alone.
	extension = ".yaml"
	// mostHooks bounds the hooks, mostNames the files in the folder.
	mostHooks = 100
	mostNames = 4096
)

// Refused is a file that isn't used, or the folder.
type Refused struct {
	File string
	Err  error
}

// Load reads the hooks of a folder, by name. A hook runs as root: its file must be root's, a regular file, and
// writable by nobody else, and so must be each folder above it. Files that aren't are refused, with what
// can't be read; the others are used. A folder that isn't there has no hooks.
func Load(dir string) ([]Hook, []Refused) {
	folder, err := openFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []Refused{{dir, err}}
	}
	defer folder.Close()
	names, err := folder.Readdirnames(mostNames + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, []Refused{{dir, errors.Wrap(err, "cannot read the hooks' folder")}}
	}
	if len(names) > mostNames {
		return nil, []Refused{{dir, errors.Errorf("cannot read the hooks' folder: it has more than %d files", mostNames)}}
	}
	slices.Sort(names)
	var hooks []Hook
	var refused []Refused
	left := 0
	for _, name := range names {
		base, is := strings.CutSuffix(name, extension)
		if !is || strings.HasPrefix(name, ".") {
			continue
		}
		if len(hooks)+len(refused) >= mostHooks {
			left++
			continue
		}
		h, err := load(folder, base)
		if err != nil {
			refused = append(refused, Refused{filepath.Join(dir, name), err})
			continue
		}
		hooks = append(hooks, h)
	}
	if left > 0 {
		refused = append(refused, Refused{dir, errors.Errorf("cannot use more than %d hooks: %d files after these are left out", mostHooks, left)})
	}
	return hooks, refused
}

// load reads one hook.
func load(folder *os.File, name string) (Hook, error) {
	if !nameForm.MatchString(name) {
		return Hook{}, errors.Errorf("cannot use the hook's name %.100q: it must be %s", name, nameAllowed)
	}
	// A FIFO would wait for a writer without O_NONBLOCK.
	fd, err := unix.Openat(int(folder.Fd()), name+extension, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return Hook{}, errors.Errorf("cannot use hook %s: it is a link, it must be a regular file", name)
	}
	if err != nil {
		return Hook{}, errors.Wrapf(err, "cannot open hook %s", name)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Hook{}, errors.Wrapf(err, "cannot read hook %s", name)
	}
	if !info.Mode().IsRegular() {
		return Hook{}, errors.Errorf("cannot use hook %s: it must be a regular file", name)
	}
	if why := others(info); why != "" {
		return Hook{}, errors.Errorf("cannot use hook %s: its file %s", name, why)
	}
	raw, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err != nil {
		return Hook{}, errors.Wrapf(err, "cannot read hook %s", name)
	}
	return Parse(name, raw)
}

// openFolder opens a folder that only root can change, by way of folders that only root can change.
func openFolder(dir string) (*os.File, error) {
	if !filepath.IsAbs(dir) {
		return nil, errors.Errorf("cannot use the hooks' folder %s: it must be an absolute path", dir)
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, so := unix.AT_FDCWD, "/"
	var folder *os.File
	for _, name := range append([]string{"/"}, strings.FieldsFunc(filepath.Clean(dir), func(r rune) bool { return r == '/' })...) {
		fd, err := unix.Openat(at, name, flags, 0)
		if folder != nil {
			_ = folder.Close()
		}
		so = filepath.Join(so, name)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil, errors.Errorf("cannot use the hooks' folder %s: %s must be a folder, and not a link", dir, so)
		}
		if err != nil {
			return nil, errors.Wrapf(err, "cannot open the hooks' folder %s", dir)
		}
		folder, at = os.NewFile(uintptr(fd), so), fd
		info, err := folder.Stat()
		why := ""
		if err == nil {
			why = others(info)
		}
		if err != nil || why != "" {
			_ = folder.Close()
			return nil, errors.Wrapf(orElse(err, why), "cannot use the hooks' folder %s: %s", dir, so)
		}
	}
	return folder, nil
}

func orElse(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}

// others says how others than root can change a file; empty when they can't.
func others(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || stat.Uid != 0:
		return "isn't root's, it must be"
	case info.Mode().Perm()&0o022 != 0:
		return "can be written by others than root (mode " + info.Mode().Perm().String() + "), it must not"
	}
	return ""
}
