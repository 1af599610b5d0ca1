package kmod

import (
	stderrors "errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Modules are the modules of a folder, such as /lib/modules/VERSION. It may be used by several goroutines.
type Modules struct {
	*Index
	folder string
	// commandLine reads the kernel's command line, and insert gives a file to the kernel.
	commandLine func() (string, error)
	insert      func(file, parameters string) error

	// pass is held while modules are loaded for devices: one device comes after the other, and whoever has loaded all has waited for all.
	pass sync.Mutex

	mu sync.Mutex
	// tried are the modules that were given to the kernel, or are at the moment: none is given twice for a device.
	tried map[string]*attempt
}

// attempt is one to give a module to the kernel.
type attempt struct {
	// done is closed once err tells why the kernel has refused it; nil if it has it.
	done chan struct{}
	err  error
}

// outcome is an attempt that has ended.
func outcome(err error) *attempt {
	a := &attempt{done: make(chan struct{}), err: err}
	close(a.done)
	return a
}

// Open reads depmod's files of a folder. Only modules.dep must be there.
func Open(folder string) (*Modules, error) {
	var t Texts
	for _, f := range []struct {
		name string
		text *string
	}{{"modules.dep", &t.Dep}, {"modules.alias", &t.Alias}, {"modules.builtin", &t.BuiltIn}, {"modules.softdep", &t.SoftDep}} {
		raw, err := os.ReadFile(filepath.Join(folder, f.name))
		if err != nil && (f.name == "modules.dep" || !errors.Is(err, fs.ErrNotExist)) {
			return nil, errors.Wrap(err, "cannot read the list of kernel modules")
		}
		*f.text = string(raw)
	}
	index, err := Read(t)
	if err != nil {
		return nil, errors.WithMessagef(err, "cannot use the modules in %s", folder)
	}
	return &Modules{Index: index, folder: folder, commandLine: readCommandLine, insert: insert, tried: map[string]*attempt{}}, nil
}

func readCommandLine() (string, error) {
	raw, err := os.ReadFile("/proc/cmdline")
	return string(raw), err
}

// insert gives a file to the kernel. The module may be there already.
func insert(file, parameters string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), parameters, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// Load loads the module of a name or of an alias such as fs-btrfs, with all that it needs and the parameters that the
// kernel's command line has for it. What is built into the kernel or loaded already is no failure.
func (m *Modules) Load(name string) error {
	steps, err := m.Steps(name)
	if err != nil {
		return err
	}
	_, err = m.take(steps)
	return err
}

// LoadAlias loads the modules of an alias, such as a device's modalias. An alias of no module is no failure.
func (m *Modules) LoadAlias(text string) error {
	m.pass.Lock()
	defer m.pass.Unlock()
	_, err := m.loadAlias(text)
	return err
}

// LoadForDevices loads the modules of all devices that a sysfs shows, and returns how many modules are new. Drivers of
// buses make further devices, a moment later: call it again until it loads none. It goes on after a module that can't be
// loaded; every module's failure is returned once. Only devices with an alias that is wanted count; nil wants all. Devices come in the order of
// their aliases, which is the same at each boot.
func (m *Modules) LoadForDevices(sys string, wanted func(alias string) bool) (loaded int, err error) {
	aliases, err := deviceAliases(sys)
	if err != nil {
		return 0, err
	}
	m.pass.Lock()
	defer m.pass.Unlock()
	var failed []error
	for _, text := range aliases {
		if wanted != nil && !wanted(text) {
			continue
		}
		n, err := m.loadAlias(text)
		loaded += n
		if err != nil {
			failed = append(failed, err)
		}
	}
	return loaded, stderrors.Join(failed...)
}

// deviceAliases are the different modaliases of the devices of a sysfs, sorted: those on a bus, those of a class, and processors.
func deviceAliases(sys string) ([]string, error) {
	have := map[string]bool{}
	for _, pattern := range []string{"bus/*/devices/*/modalias", "class/*/*/modalias", "devices/system/*/modalias"} {
		files, err := filepath.Glob(filepath.Join(sys, pattern))
		if err != nil {
			return nil, errors.Wrap(err, "cannot look for devices")
		}
		for _, file := range files {
			raw, err := os.ReadFile(file) // the device may have gone
			if text := strings.TrimSpace(string(raw)); err == nil && text != "" {
				have[text] = true
			}
		}
	}
	if _, err := os.Stat(filepath.Join(sys, "bus")); err != nil {
		return nil, errors.Wrap(err, "cannot look for devices")
	}
	return slices.Sorted(maps.Keys(have)), nil
}

// loadAlias loads modules that the kernel has neither got nor refused yet.
func (m *Modules) loadAlias(text string) (loaded int, err error) {
	var failed []error
	for _, name := range m.Names(text) {
		if m.wasTried(name) {
			continue
		}
		line, err := m.commandLine()
		if err == nil && refused(line)[name] {
			m.end(name, errors.Errorf("the kernel's command line refuses module %s for devices", name))
			continue
		}
		steps, err := m.Steps(name)
		if err == nil {
			var n int
			n, err = m.take(steps)
			loaded += n
		}
		if err != nil {
			m.end(name, err)
			failed = append(failed, err)
		}
	}
	return loaded, stderrors.Join(failed...)
}

func (m *Modules) wasTried(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tried[name] != nil
}

// end notes why a module isn't given to the kernel, if it wasn't given.
func (m *Modules) end(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tried[name] == nil {
		m.tried[name] = outcome(err)
	}
}

// take does steps that aren't done yet. It ends at the first that must succeed and doesn't.
func (m *Modules) take(steps []Step) (loaded int, err error) {
	line, err := m.commandLine()
	if err != nil {
		return 0, errors.Wrap(err, "cannot read the parameters of modules")
	}
	for _, s := range steps {
		isNew, err := m.give(s, line)
		switch {
		case err != nil && !s.Soft:
			return loaded, errors.Wrapf(err, "cannot load module %s", s.Name)
		case err == nil && isNew:
			loaded++
		}
	}
	return loaded, nil
}

// give gives a step's module to the kernel, unless it has it; isNew tells that it hadn't. While another goroutine gives it, it waits. What the kernel has
// refused is given again only to a step that must succeed.
func (m *Modules) give(s Step, line string) (isNew bool, err error) {
	for {
		m.mu.Lock()
		before := m.tried[s.Name]
		if before == nil {
			mine := &attempt{done: make(chan struct{})}
			m.tried[s.Name] = mine
			m.mu.Unlock()
			mine.err = m.insert(filepath.Join(m.folder, s.Path), parameters(line, s.Name))
			close(mine.done)
			return mine.err == nil, mine.err
		}
		m.mu.Unlock()
		<-before.done
		if before.err == nil || s.Soft {
			return false, before.err
		}
		m.mu.Lock()
		if m.tried[s.Name] == before {
			delete(m.tried, s.Name)
		}
		m.mu.Unlock()
	}
}
