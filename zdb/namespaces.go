package zdb

import (
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/folders"
	"github.com/croft-edge/croft/zdb/store"
)

const (
	textBroken   = "Namespace is damaged, see the log of the server"
	textNotFound = "Namespace not found"

	// Bounds of the number of files that the stores keep open.
	leastFiles = 64
	mostFiles  = 1 << 20
)

// namespaces are all namespaces of a server, with their folders and stores.
type namespaces struct {
	cfg     Config
	log     zerolog.Logger
	layout  store.Layout
	count   *counters
	folders *folders.Folders
	remover *folders.Remover
	shared  *store.Shared // of all stores
	jobs    chan struct{} // one for each background job of a store that runs
	memory  keyMemory
	names   map[string]*namespace
	slots   []*namespace // by number; nil where there is none
	// unreadable are the numbers of folders whose descriptor can't be read.
	unreadable map[int]bool
}

// newNamespaces locks the folders. Nothing is opened yet.
func newNamespaces(cfg Config, count *counters) (*namespaces, error) {
	dirs, err := folders.Open(cfg.Data, cfg.Index)
	if err != nil {
		return nil, err
	}
	return &namespaces{
		cfg: cfg, log: cfg.Log, layout: layoutOf(cfg.Compat), count: count, folders: dirs, remover: folders.NewRemover(cfg.Log),
		shared: store.NewShared(openFiles()), jobs: make(chan struct{}, jobsAtOnce()), memory: keyMemory{most: cfg.Memory}, names: map[string]*namespace{}, unreadable: map[int]bool{},
	}, nil
}

func layoutOf(compat string) store.Layout {
	if compat == CompatV1 {
		return store.V1()
	}
	return store.V2()
}

// openFiles is how many files the stores may keep open: half of the process' limit,
// so that some are left for clients.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return leastFiles
	}
	return int(max(leastFiles, min(limit.Cur/2, mostFiles)))
}

// jobsAtOnce is how many background jobs of stores run at once. Each has up to two files of its own open, which
// openFiles doesn't count: on a slow disk the jobs of all stores would take every descriptor. They get half
// of what the stores leave.
func jobsAtOnce() int { return openFiles() / 4 }

// load opens all namespaces that have a folder, and makes default.
func (n *namespaces) load() error {
	n.memory.loading = true
	defer func() { n.memory.loading = false }()
	numbers, left, err := n.folders.Numbers()
	if err != nil {
		return err
	}
	n.remover.Add(left...)
	for _, number := range numbers {
		if err := n.loadOne(number); err != nil {
			return err
		}
	}
	if len(n.slots) == 0 || n.slots[0] == nil {
		_, err = n.create(0, defaultName)
	}
	return err
}

// loadOne opens the namespace in a folder. One that can't be read is left out and
// keeps its number; only a problem of all namespaces is an error.
func (n *namespaces) loadOne(number int) error {
	log := n.log.With().Int("number", number).Str("folder", n.folders.Of(number)).Logger()
	d, err := folders.Read(n.folders.Of(number))
	if err == nil && n.names[d.Name] != nil {
		err = errors.Errorf("cannot open namespace %q: folder %s has it too", d.Name, n.folders.Of(n.names[d.Name].number))
	}
	if err == nil && (number == 0) != (d.Name == defaultName) {
		err = errors.Errorf("cannot open namespace %q: folder 0 is for %q", d.Name, defaultName)
	}
	if err != nil && number > 0 {
		n.unreadable[number] = true
		log.Error().Err(err).Msg("a namespace is damaged: it is left out, and its folder stays as it is")
		return nil
	}
	if err != nil {
		log.Error().Err(err).Msg("namespace default is damaged: its commands are refused, and its folder stays as it is")
		ns := &namespace{Descriptor: folders.Descriptor{Name: defaultName, Mode: ModeUser}}
		ns.has(nil)
		n.add(ns)
		return nil
	}
	if d.Compat != n.cfg.Compat {
		return errors.Errorf("cannot open namespace %q with compat %s: its data was made with %s", d.Name, n.cfg.Compat, d.Compat)
	}
	others, err := n.folders.Others(number, d.Generation)
	if err != nil {
		return err
	}
	n.remover.Add(others...)
	ns := &namespace{number: number, Descriptor: d}
	if err := n.openStore(ns); err != nil {
		ns.has(nil)
		log.Error().Err(err).Str("namespace", d.Name).Msg("a namespace is damaged: its commands are refused")
	}
	n.add(ns)
	return nil
}

func (n *namespaces) add(ns *namespace) {
	for len(n.slots) <= ns.number {
		n.slots = append(n.slots, nil)
	}
	n.slots[ns.number] = ns
	n.names[ns.Name] = ns
}

// named is the namespace of a name; nil for none.
func (n *namespaces) named(name []byte) *namespace { return n.names[string(name)] }

// limit is how many bytes of values a namespace may have, 0 for no limit.
func (n *namespaces) limit(ns *namespace) uint64 {
	if ns.number == 0 {
		return n.cfg.MaxSize
	}
	return ns.MaxSize
}

// create makes a namespace with its folder and data.
func (n *namespaces) create(number int, name string) (*namespace, error) {
	mode := n.cfg.Mode
	if mode == "" {
		mode = ModeUser
	}
	ns := &namespace{number: number, Descriptor: folders.Descriptor{Name: name, Mode: mode, Compat: n.cfg.Compat, Generation: 1}}
	if err := n.folders.Make(number, ns.Descriptor); err != nil {
		return nil, err
	}
	if err := n.openStore(ns); err != nil {
		gone, e := n.folders.Drop(number)
		if e != nil {
			n.log.Error().Err(e).Msg("cannot remove the folder of a namespace that couldn't be made")
			n.unreadable[number] = true
		}
		n.remover.Add(gone...)
		return nil, err
	}
	n.add(ns)
	n.count.rotated(n.layout)
	return ns, nil
}

// storeConfig is how the data of a namespace is opened.
func (n *namespaces) storeConfig(ns *namespace, d folders.Descriptor) store.Config {
	data, index := n.folders.Store(ns.number, d.Generation)
	return store.Config{
		Dir: data, IndexDir: index, Sequential: d.Mode == ModeSequential, Layout: n.layout,
		DataSize: n.cfg.DataSize, MaxSize: n.limit(ns), Sync: n.cfg.Sync, Memory: func(more int) bool { return n.memory.take(ns, more) }, Shared: n.shared, Guarded: true,
		Log: n.log.With().Int("number", ns.number).Logger(), Background: n.background,
	}
}

// background runs a job of a store on another goroutine, when there is a place.
func (n *namespaces) background(job func()) {
	go func() {
		n.jobs <- struct{}{}
		defer func() { <-n.jobs }()
		job()
	}()
}

// openStore opens the data of a namespace.
func (n *namespaces) openStore(ns *namespace) error {
	st, err := store.Open(n.storeConfig(ns, ns.Descriptor))
	if err != nil {
		return err
	}
	ns.has(st)
	return nil
}

// free is the lowest unused number.
func (n *namespaces) free() int {
	for number := 1; ; number++ {
		if n.unreadable[number] {
			continue
		}
		if number >= len(n.slots) || n.slots[number] == nil {
			return number
		}
	}
}

// remove takes a namespace's folders away and forgets it. Its store stays open for
// discard. After an error the namespace is still there.
func (n *namespaces) remove(ns *namespace) error {
	gone, err := n.folders.Drop(ns.number)
	n.remover.Add(gone...)
	if err != nil && len(gone) == 0 {
		return err
	}
	if err != nil {
		n.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot remove all of a namespace")
	}
	ns.gone = true
	delete(n.names, ns.Name)
	n.slots[ns.number] = nil
	return nil
}

// discard closes a store whose files are unused.
func (n *namespaces) discard(ns *namespace) {
	if ns.store == nil {
		return
	}
	ns.store.Discard()
	ns.has(nil)
}

// change replaces a namespace's settings.
func (n *namespaces) change(ns *namespace, d folders.Descriptor) error {
	if err := d.Write(n.folders.Of(ns.number)); err != nil {
		return err
	}
	ns.Descriptor = d
	return nil
}

// renew gives a namespace empty data, of the given mode.
func (n *namespaces) renew(ns *namespace, mode string) error {
	d := ns.Descriptor
	d.Generation++
	d.Mode = mode
	if err := n.folders.MakeGeneration(ns.number, d.Generation); err != nil {
		return err
	}
	st, err := store.Open(n.storeConfig(ns, d))
	if err != nil {
		return err
	}
	// From here on the new generation counts.
	if err := d.Write(n.folders.Of(ns.number)); err != nil {
		st.Discard()
		return err
	}
	n.discard(ns)
	old := ns.Generation
	ns.Descriptor = d
	ns.has(st)
	gone, err := n.folders.DropGeneration(ns.number, old)
	n.remover.Add(gone...)
	if err != nil {
		n.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot remove all of the old data: the next start does")
	}
	return nil
}

// reload closes a namespace and opens it again, from disk. It reports whether the
// namespace can be used.
func (n *namespaces) reload(ns *namespace) bool {
	if !ns.broken() {
		if err := ns.store.Close(); err != nil {
			n.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot close a namespace to reload it")
		}
		ns.has(nil)
	}
	d, err := folders.Read(n.folders.Of(ns.number))
	if err == nil && d.Name == ns.Name && d.Compat == n.cfg.Compat {
		ns.Descriptor = d
		err = n.openStore(ns)
	}
	if err != nil || ns.broken() {
		n.log.Error().Err(err).Str("namespace", ns.Name).Msg("a namespace is damaged: its commands are refused")
		return false
	}
	return true
}

// close closes all namespaces.
func (n *namespaces) close() error {
	var first error
	for _, ns := range n.slots {
		if ns == nil || ns.broken() {
			continue
		}
		if err := ns.store.Close(); err != nil && first == nil {
			first = errors.Wrapf(err, "cannot close namespace %q", ns.Name)
		}
	}
	n.slots = nil
	n.remover.Close()
	n.folders.Close()
	return first
}
