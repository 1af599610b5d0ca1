package folders

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/filelock"
)

const (
	lockName  = "lock"
	newPrefix = ".new-"
	// gonePrefix begins the names of unused folders.
	gonePrefix = ".gone-"
	// tempPrefix begins the names of files that package atomicfile writes.
	tempPrefix = ".tmp-"
)

// Folders are the two folders of a server's namespaces: for data and for indexes. They
// may be the same.
type Folders struct {
	data, index string
	locks       []*filelock.Lock
}

// Open makes both folders and locks them against other servers.
func Open(data, index string) (*Folders, error) {
	f := &Folders{data: data, index: index}
	for _, folder := range f.both() {
		if err := atomicfile.MakeFolder(folder, nil); err != nil {
			return nil, closing(f, err)
		}
		if err := f.lock(folder); err != nil {
			return nil, closing(f, err)
		}
	}
	return f, nil
}

// hasDescriptor reports whether a folder is a namespace's, with data.
func hasDescriptor(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, descriptorName))
	return err == nil
}

func closing(f *Folders, err error) error {
	f.Close()
	return err
}

// both are the folders, once when they are the same.
func (f *Folders) both() []string {
	if same, err := sameFolder(f.data, f.index); err == nil && same {
		return []string{f.data}
	}
	return []string{f.data, f.index}
}

func sameFolder(a, b string) (bool, error) {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true, nil
	}
	one, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	other, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(one, other), nil
}

func (f *Folders) lock(folder string) error {
	lock, err := filelock.Try(filepath.Join(folder, lockName))
	if filelock.Held(err) != nil {
		return errors.Errorf("cannot use folder %s: another zdb has it open", folder)
	}
	if err != nil {
		return errors.Wrapf(err, "cannot lock folder %s", folder)
	}
	f.locks = append(f.locks, lock)
	return nil
}

// Close unlocks the folders.
func (f *Folders) Close() {
	for _, lock := range f.locks {
		_ = lock.Release()
	}
	f.locks = nil
}

// Of is the folder of a namespace, with its descriptor.
func (f *Folders) Of(number int) string { return filepath.Join(f.data, strconv.Itoa(number)) }

// Store are the folders of the data and the index of a namespace's generation.
func (f *Folders) Store(number int, generation uint64) (data, index string) {
	data, index = f.generation(number, generation)
	if len(f.both()) == 1 {
		index = data
	}
	return data, index
}

func (f *Folders) generation(number int, generation uint64) (data, index string) {
	inside := filepath.Join(strconv.Itoa(number), strconv.FormatUint(generation, 10))
	return filepath.Join(f.data, inside), filepath.Join(f.index, inside)
}

// Make makes the folder of a namespace with its descriptor and empty folders for
// its data, all or nothing.
func (f *Folders) Make(number int, d Descriptor) error {
	fresh := filepath.Join(f.data, newPrefix+strconv.Itoa(number))
	if err := os.RemoveAll(fresh); err != nil {
		return errors.Wrapf(err, "cannot make the folder of namespace %d", number)
	}
	if err := os.Mkdir(fresh, atomicfile.FolderMode); err != nil {
		return errors.Wrapf(err, "cannot make the folder of namespace %d", number)
	}
	if err := os.Mkdir(filepath.Join(fresh, strconv.FormatUint(d.Generation, 10)), atomicfile.FolderMode); err != nil {
		return errors.Wrapf(err, "cannot make the folder of namespace %d", number)
	}
	if err := d.Write(fresh); err != nil {
		return err
	}
	// An earlier namespace of this number may have left its index.
	if len(f.both()) == 2 {
		if err := os.RemoveAll(filepath.Join(f.index, strconv.Itoa(number))); err != nil {
			return errors.Wrapf(err, "cannot make the folder of namespace %d", number)
		}
	}
	if err := f.makeIndex(number, d.Generation); err != nil {
		return err
	}
	if err := os.Rename(fresh, f.Of(number)); err != nil {
		return errors.Wrapf(err, "cannot make the folder of namespace %d", number)
	}
	return syncFolder(f.data)
}

// MakeGeneration makes the folders of another generation.
func (f *Folders) MakeGeneration(number int, generation uint64) error {
	data, _ := f.generation(number, generation)
	if err := atomicfile.MakeFolder(data, nil); err != nil {
		return err
	}
	return f.makeIndex(number, generation)
}

func (f *Folders) makeIndex(number int, generation uint64) error {
	if len(f.both()) == 1 {
		return nil
	}
	_, index := f.generation(number, generation)
	return atomicfile.MakeFolder(index, nil)
}

// Drop takes a namespace's folders away, atomically and durably, and returns the
// renamed folders for removal.
func (f *Folders) Drop(number int) ([]string, error) {
	return f.aside(strconv.Itoa(number))
}

// DropGeneration does the same with the folders of a generation.
func (f *Folders) DropGeneration(number int, generation uint64) ([]string, error) {
	return f.aside(filepath.Join(strconv.Itoa(number), strconv.FormatUint(generation, 10)))
}

// aside renames a path inside both folders. The data goes first: an index without
// data is nothing.
func (f *Folders) aside(inside string) ([]string, error) {
	var gone []string
	for _, folder := range f.both() {
		to, err := setAside(folder, inside)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return gone, err
		}
		gone = append(gone, to)
		if err := syncFolder(folder); err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// setAside renames a folder inside one of the folders, and returns its new path, for removal: a new namespace
// or generation may take the old one meanwhile.
func setAside(folder, inside string) (string, error) {
	to := filepath.Join(folder, gonePrefix+strings.ReplaceAll(inside, "/", "-")+"-"+rand.Text()[:8])
	if err := os.Rename(filepath.Join(folder, inside), to); err != nil {
		return "", errors.Wrapf(err, "cannot take %s away", filepath.Join(folder, inside))
	}
	return to, nil
}

// clearPath sets a left folder aside, and returns its new path, for removal. Where it can't be renamed, as on a
// full disk, it is removed at once, and nothing is returned: a server with a full disk must start.
func clearPath(folder, inside string) ([]string, error) {
	to, err := setAside(folder, inside)
	if err == nil {
		return []string{to}, nil
	}
	if os.RemoveAll(filepath.Join(folder, inside)) == nil {
		return nil, nil
	}
	return nil, err
}

// Numbers returns the numbers of the namespaces, in order; left are folders that an
// earlier process didn't come to remove. Nothing uses their paths any more.
func (f *Folders) Numbers() (numbers []int, left []string, err error) {
	for i, folder := range f.both() {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, nil, errors.Wrap(err, "cannot list namespaces")
		}
		for _, e := range entries {
			number, isNumber := folderNumber(e)
			aside := strings.HasPrefix(e.Name(), newPrefix)
			switch {
			case aside:
			case strings.HasPrefix(e.Name(), gonePrefix):
				left = append(left, filepath.Join(folder, e.Name()))
			case isNumber && i == 0:
				numbers = append(numbers, number)
			case isNumber && hasDescriptor(filepath.Join(folder, e.Name())):
				return nil, nil, errors.Errorf("cannot use folder %s for the index: it has data of a zdb", folder)
			case isNumber && !slices.Contains(numbers, number):
				aside = true
			}
			if aside {
				rest, err := clearPath(folder, e.Name())
				if err != nil {
					return nil, nil, err
				}
				left = append(left, rest...)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, left, nil
}

func folderNumber(e fs.DirEntry) (int, bool) {
	number, err := strconv.Atoi(e.Name())
	return number, err == nil && number >= 0 && e.IsDir() && strconv.Itoa(number) == e.Name()
}

// Others returns the folders of a namespace's other generations, for removal, and temporary files
// of its descriptor. Nothing uses their paths any more.
func (f *Folders) Others(number int, generation uint64) ([]string, error) {
	var out []string
	for _, folder := range f.both() {
		inside := filepath.Join(folder, strconv.Itoa(number))
		entries, err := os.ReadDir(inside)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Wrapf(err, "cannot list namespace %d", number)
		}
		for _, e := range entries {
			other, err := strconv.ParseUint(e.Name(), 10, 64)
			switch {
			case err == nil && e.IsDir() && other != generation:
				rest, err := clearPath(folder, filepath.Join(strconv.Itoa(number), e.Name()))
				if err != nil {
					return nil, err
				}
				out = append(out, rest...)
			case strings.HasPrefix(e.Name(), tempPrefix):
				out = append(out, filepath.Join(inside, e.Name()))
			}
		}
	}
	return out, nil
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return errors.Wrapf(err, "cannot sync folder %s", path)
	}
	err = dir.Sync()
	_ = dir.Close()
	return errors.Wrapf(err, "cannot sync folder %s", path)
}
