package mirror

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/supervise"
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
	// earlier is the mirror's restoredFile, if it has one.
	earlier []byte
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

// vacant refuses a folder that has anything but folders and what move removes.
func (r *restore) vacant() error {
	all, err := Folder(r.Folder).Names()
	if err != nil {
		return err
	}
	if len(all) > 0 {
		return node.Errorf(node.Refused, "cannot restore a store into %s: it has %d files, such as %s; move the folder away first, if what it has may be given up", r.Folder, len(all), all[0])
	}
	top, err := os.ReadDir(r.Folder)
	if err != nil {
		return node.WithKind(node.Internal, errors.WithStack(err))
	}
	for _, e := range top {
		foreign := ""
		if e.IsDir() {
			if foreign, err = foreignBelow(r.Folder, e.Name()); err != nil {
				return err
			}
		} else if e.Name() != lockFile && !remains(e) {
			foreign = e.Name()
		}
		if foreign != "" {
			return node.Errorf(node.Refused, "cannot restore a store into %s: it has %s, which no store has; move the folder away first", r.Folder, foreign)
		}
	}
	return nil
}

// foreignBelow returns what is in a store's folder and isn't left of an unfinished write; empty when there is nothing.
func foreignBelow(root, folder string) (string, error) {
	below, err := os.ReadDir(filepath.Join(root, folder))
	if err != nil {
		return "", node.WithKind(node.Internal, errors.WithStack(err))
	}
	for _, e := range below {
		if !remains(e) {
			return filepath.Join(folder, e.Name()), nil
		}
	}
	return "", nil
}

// remains reports whether something is left of an unfinished write.
func remains(e os.DirEntry) bool { return e.Type().IsRegular() && atomicfile.Temporary(e.Name()) }

// fill writes the stage's files. It asks for what the list has, whatever else there is: whoever may add objects to a place can't make it
// unrestorable.
func (r *restore) fill(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	folders := &folders{root: r.stage, hook: r.Hook, waiting: map[string][]atomicfile.File{}}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(r.list.Files)), atOnce) {
		if err := r.fillSome(ctx, names, folders); err != nil {
			return err
		}
	}
	return r.judge(folders)
}

// fillSome reads the objects of a few names at the same time, and writes their files.
func (r *restore) fillSome(ctx context.Context, names []string, folders *folders) error {
	bodies, errs := make([][]byte, len(names)), make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() {
			errs[i] = supervise.Catch("restore of "+name, func() (err error) {
				bodies[i], err = r.read(ctx, name)
				return err
			})
		})
	}
	wait.Wait()
	for i, name := range names {
		switch node.KindOf(errs[i]) {
		case "":
			if err := r.take(name, bodies[i], folders); err != nil {
				return err
			}
			r.report.Files++
		case node.NotExist:
			r.report.Missing = append(r.report.Missing, name)
		case node.Invalid:
			r.report.Damaged[name] = errs[i].Error()
		default:
			return errs[i]
		}
	}
	return nil
}

// read returns a name's content. Invalid when it isn't what the list says.
func (r *restore) read(ctx context.Context, name string) ([]byte, error) {
	hash := r.list.Files[name]
	o, err := r.get(ctx, kindFile, r.vault.Hidden(kindFile, contentName(name, hash)))
	if err != nil {
		return nil, err
	}
	return soundBody(r.vault, o, name, hash)
}

// take writes a name's file.
func (r *restore) take(name string, body []byte, folders *folders) error {
	if name == restoredFile {
		r.earlier = body
		return nil // judge writes another
	}
	return folders.write(name, body)
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

// birthFile is the store's birth. An empty one counts as damaged: the store gets another.
const birthFile = metaFolder + "birth"

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
	from := origin{Birth: r.list.Birth, Written: r.list.Written}
	if whole {
		from.State = stateOf(r.list)
	}
	text, err := from.with(r.earlier)
	if err != nil {
		return err
	}
	if err := folders.write(restoredFile, text); err != nil {
		return err
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
		if e.IsDir() {
			if err := clean(filepath.Join(r.Folder, e.Name())); err != nil {
				return err
			}
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

// clean removes what unfinished writes have left in a folder.
func clean(folder string) error {
	below, err := os.ReadDir(folder)
	if err != nil {
		return errors.WithStack(err)
	}
	for _, e := range below {
		if !remains(e) {
			continue
		}
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}
