package mirror

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/seal"
)

// RestoreConfig says what is restored, from where and to where.
type RestoreConfig struct {
	// Provider and Instance are where the mirror is.
	Provider persist.Provider
	Instance string
	// Machine is whose mirror it is: the node's ID.
	Machine persist.MachineID
	// Key is the node's key, or the private recovery key.
	Key sign.KeyPair
	// Folder is the store's folder: missing or without files. Folder + ".restore" beside it is used on the way.
	Folder string
	// Rebirth gives the store in a folder a new birth, as `croftd store restored` does, and closes it: store.Open, Rebirth, Close.
	Rebirth func(folder string) error
	// Keep, when set, keeps the node's key before the store takes its place: a machine that lost its key must not start with another one
	// and this store.
	Keep func(node sign.KeyPair) error
	// Partial restores what is sound although something is missing. The operator asks for it.
	Partial bool
	// Timeout bounds one call of the provider; 0 is DefaultTimeout.
	Timeout time.Duration
	// Hook stops or fails the durable steps, in tests.
	Hook atomicfile.Hook
}

// Report is what Restore found.
type Report struct {
	// Written is the date of the list that the store is as of, by the clock of the node that wrote it, and Number its number: a mirror that shows an
	// older one than the operator knows of was put back.
	Written time.Time
	Number  uint64
	// Complete is whether the mirror had once had everything.
	Complete bool
	// Files is how many files are sound. Missing are the names that the list has and the mirror hasn't; Damaged those whose
	// objects aren't what they must be, with the cause.
	Files   int
	Missing []string
	Damaged map[string]string
	// Node is the node's key: the one given, or the one that the recovery key gave.
	Node sign.KeyPair
}

// stageSuffix is added to the folder that is filled before it takes the store's place.
const stageSuffix = ".restore"

// Restore makes a store of a mirror. It checks every object, and puts the store in its place in one step, after its rebirth: whenever it
// stops, there is either no store or a whole one, reborn. Calling it again is safe. Refused when there is a store, when anything is missing or
// damaged and Partial isn't set, and when the mirror was never complete and Partial isn't set; the report tells.
func Restore(ctx context.Context, c RestoreConfig) (Report, error) {
	r := restore{RestoreConfig: c, place: place{c.Provider, c.Instance, cmp.Or(c.Timeout, DefaultTimeout)}, stage: c.Folder + stageSuffix}
	if c.Rebirth == nil || c.Key.Private() == nil || !filepath.IsAbs(c.Folder) {
		return r.report, node.Errorf(node.Invalid, "cannot restore a store: Rebirth, Key and an absolute Folder must be given")
	}
	lock, err := r.hold()
	if err != nil {
		return r.report, err
	}
	defer func() { _ = lock.Release() }()
	if err := r.vacant(); err != nil {
		r.leave()
		return r.report, err
	}
	if err := os.RemoveAll(r.stage); err != nil { // of a restore that was stopped
		return r.report, node.WithKind(node.Internal, errors.Wrap(err, "cannot restore a store"))
	}
	err = r.fill(ctx)
	if err == nil {
		err = r.Rebirth(r.stage)
	}
	if err == nil && r.Keep != nil {
		err = r.Keep(r.report.Node)
	}
	if err == nil {
		err = r.move()
	}
	if err != nil {
		r.leave()
		_ = r.step(atomicfile.Remove, r.stage, func() error { return os.RemoveAll(r.stage) })
		return r.report, node.WithKind(node.KindOf(err), errors.WithMessagef(err, "cannot restore a store from %s", c.Instance))
	}
	return r.report, nil
}

// restore is one call of Restore.
type restore struct {
	RestoreConfig
	place
	stage string
	// made is whether the store's folder was missing.
	made   bool
	report Report
	vault  *seal.Vault
	list   *list
}

// hold takes the lock of the store that is to be: until it is released, no node opens a store there, and no other restore begins.
func (r *restore) hold() (*filelock.Lock, error) {
	if _, err := os.Lstat(r.Folder); errors.Is(err, os.ErrNotExist) {
		r.made = true
	}
	if err := atomicfile.MakeFolder(r.Folder, r.Hook); err != nil {
		return nil, node.WithKind(node.Internal, err)
	}
	lock, err := filelock.Try(filepath.Join(r.Folder, lockFile))
	if filelock.Held(err) != nil {
		return nil, node.Errorf(node.Busy, "cannot restore a store into %s: it is in use, by the node or by another restore: %w", r.Folder, err)
	}
	return lock, node.WithKind(node.Internal, errors.Wrapf(err, "cannot lock %s", r.Folder))
}

// leave removes the folder if it was made for the lock alone. The lock is still held.
func (r *restore) leave() {
	if r.made {
		_ = os.Remove(filepath.Join(r.Folder, lockFile))
		_ = os.Remove(r.Folder)
	}
}

// vacant refuses a folder that has files.
func (r *restore) vacant() error {
	all, err := Folder(r.Folder).Names()
	if err != nil {
		return err
	}
	if len(all) > 0 {
		return node.Errorf(node.Refused, "cannot restore a store into %s: it has %d files, such as %s; move the folder away first, if what it has may be given up", r.Folder, len(all), all[0])
	}
	return nil
}

// fill writes the stage's files.
func (r *restore) fill(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	folders := &folders{root: r.stage, hook: r.Hook, waiting: map[string][]atomicfile.File{}}
	names := map[persist.Key]string{} // of those that aren't there yet
	for name, hash := range r.list.Files {
		names[persist.KeyOf(r.vault.Hidden(kindFile, contentName(name, hash)))] = name
	}
	for o, err := range r.provider.GetAllObjects(ctx, r.instance, kindFile) {
		key := persist.KeyOf(o.Name)
		name, wanted := names[key]
		switch {
		case err != nil && node.KindOf(err) != node.Invalid:
			return err
		case !wanted:
			continue // nothing that the list tells of
		case err == nil:
			err = r.take(o, name, folders)
		}
		if err != nil && node.KindOf(err) != node.Invalid {
			return err
		}
		delete(names, key)
		if err != nil {
			r.report.Damaged[name] = err.Error()
			continue
		}
		r.report.Files++
	}
	r.report.Missing = slices.Sorted(maps.Values(names))
	return r.judge(folders)
}

// open reads the data key and the list.
func (r *restore) open(ctx context.Context) error {
	r.report.Damaged = map[string]string{}
	err := r.within(ctx, func(ctx context.Context) error { return r.provider.Initialize(ctx, r.Machine) })
	if err != nil && !r.provider.InstanceStatus(r.instance).Status {
		return err
	}
	o, err := r.get(ctx, kindKey, onlyName)
	if node.KindOf(err) == node.NotExist {
		return node.Errorf(node.NotExist, "there is no mirror of machine %s: %w", r.Machine, err)
	}
	if err != nil {
		return err
	}
	opened, err := seal.Unwrap(o.Body, r.Machine, r.Key)
	if err != nil {
		return err
	}
	r.vault, r.report.Node = opened.Vault, opened.Node
	if r.list, err = r.readList(ctx, r.vault); err != nil {
		return err
	}
	r.report.Written, r.report.Number, r.report.Complete = r.list.Written, r.list.Number, r.list.Complete
	for name := range r.list.Files {
		if !validName(name) {
			return node.Errorf(node.Invalid, "the list has a name that no store has: %q", name)
		}
	}
	if !r.list.Complete && !r.Partial {
		return node.Errorf(node.Refused, "the mirror never had everything: the node was lost before its first copy was whole; what there is can be restored as a part")
	}
	return nil
}

// take checks an object and writes its file. Invalid when it isn't what the list says.
func (r *restore) take(o persist.Object, name string, folders *folders) error {
	item, err := r.vault.Open(o)
	if err != nil {
		return err
	}
	if hash := r.list.Files[name]; item.Name != contentName(name, hash) || sum(item.Body) != hash {
		return node.Errorf(node.Invalid, "cannot use the file %s: its content isn't the one listed", name)
	}
	return folders.write(name, item.Body)
}

// birthFile is the store's birth. An empty one counts as damaged: the store gets another.
const birthFile = "meta/birth"

// judge refuses what isn't whole, unless a part is wanted.
func (r *restore) judge(folders *folders) error {
	whole := len(r.report.Missing) == 0 && len(r.report.Damaged) == 0
	if !whole && !r.Partial {
		return node.Errorf(node.Refused, "%d of %d files are missing and %d damaged, such as %q: nothing was restored; what is sound can be restored as a part",
			len(r.report.Missing), len(r.list.Files), len(r.report.Damaged), slices.Concat(r.report.Missing, slices.Sorted(maps.Keys(r.report.Damaged)))[0])
	}
	if r.report.Files == 0 {
		return node.Errorf(node.NotExist, "the mirror has no sound file")
	}
	damaged := r.report.Damaged[birthFile] != "" || slices.Contains(r.report.Missing, birthFile)
	if _, listed := r.list.Files[birthFile]; damaged || !listed {
		if err := folders.write(birthFile, nil); err != nil {
			return err
		}
	}
	return folders.flush()
}

// step is a durable step that atomicfile has no function for.
func (r *restore) step(op atomicfile.Op, path string, do func() error) error {
	if r.Hook == nil {
		return do()
	}
	if err := r.Hook(atomicfile.Point{Op: op, Path: path}); err != nil {
		return err
	}
	if err := do(); err != nil {
		return node.WithKind(node.Internal, errors.WithStack(err))
	}
	return r.Hook(atomicfile.Point{Op: op, Path: path, After: true})
}

// move puts the stage in the store's place.
func (r *restore) move() error {
	// Of an empty store only the lock, remains of unfinished writes, and folders are left. A folder replaces an empty one. The lock is removed
	// last: whoever makes another from then on finds either that the rename fails, or the restored store.
	below, err := os.ReadDir(r.Folder)
	if err != nil {
		return errors.WithStack(err)
	}
	for _, e := range below {
		if e.Name() == lockFile {
			continue
		}
		if err := os.Remove(filepath.Join(r.Folder, e.Name())); err != nil {
			return errors.WithStack(err)
		}
	}
	r.made = false // from here on, a lock there is another's
	if err := os.Remove(filepath.Join(r.Folder, lockFile)); err != nil {
		return errors.WithStack(err)
	}
	if err := r.step(atomicfile.Move, r.Folder, func() error { return unix.Rename(r.stage, r.Folder) }); err != nil {
		return err
	}
	return r.step(atomicfile.SyncDir, filepath.Dir(r.Folder), func() error {
		parent, err := os.Open(filepath.Dir(r.Folder))
		if err != nil {
			return err
		}
		defer parent.Close()
		return parent.Sync()
	})
}
