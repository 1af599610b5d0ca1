package rootfs

import (
	"context"
	stderrors "errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// Make makes a container's environment. Matching parts are adopted, missing ones are
// made: namespaces stay when only the root file system is missing. Busy when a part
// must be made anew while processes of the container run. When it fails, the parts
// that it has made are removed.
func (s *Store) Make(ctx context.Context, spec Spec) (Made, error) {
	spec, err := spec.normal()
	if err != nil {
		return Made{}, err
	}
	r, done, err := s.ranges.hold(spec.User, spec.Layer)
	if err != nil {
		return Made{}, err
	}
	defer done()
	digest, err := spec.digest(r)
	if err != nil {
		return Made{}, err
	}
	defer s.locks.lock(spec.ID)()
	m := maker{log: s.log, spaces: s.spaces, records: &s.records, reached: s.reached, ctx: ctx, spec: spec, r: r, digest: digest, folder: s.folders.of(spec.ID)}
	if err := m.make(); err != nil {
		if undone := s.undo(&m); undone != nil {
			err = stderrors.Join(err, undone)
		}
		return Made{}, err
	}
	return madeIn(m.folder, r), nil
}

// maker is one Make.
type maker struct {
	log     zerolog.Logger
	spaces  *spaces
	records *records
	reached func(step string)

	ctx    context.Context
	spec   Spec
	r      Range
	digest string
	folder string
	// fresh is whether nothing was there, begun whether it has changed anything.
	fresh bool
	begun bool
}

func (m *maker) make() error {
	whole, kept, err := m.adopt()
	if err != nil || whole {
		return err
	}
	if err := m.ctx.Err(); err != nil {
		return failed("make container", m.spec.ID, node.WithKind(node.Transient, err))
	}
	m.begun = true
	if err := os.Mkdir(m.folder, folderMode); err == nil {
		m.fresh = true
	} else if !os.IsExist(err) {
		return failed("make", m.folder, err)
	}
	if err := os.Chmod(m.folder, folderMode); err != nil {
		return failed("make", m.folder, err)
	}
	m.reached("folder")
	if err := m.spaces.letGo(m.spec.ID); err != nil {
		return err
	}
	now := record{User: m.spec.User, Range: m.r}
	if kept != nil {
		now.Namespaces = *kept
	} else if now.Namespaces, err = pin(m.folder, m.r); err != nil {
		return err
	}
	m.reached("namespaces")
	if err := m.records.write(m.folder, &now); err != nil {
		return err
	}
	m.reached("recorded")
	if now.Root, err = m.root(); err != nil {
		return err
	}
	m.reached("mounted")
	return m.records.write(m.folder, &now)
}

// adopt returns whether all parts are there and match, and else which namespaces
// stay. Busy when they can't stay and processes are in them.
func (m *maker) adopt() (whole bool, kept *namespaces, err error) {
	was, err := m.records.read(m.folder)
	if err != nil {
		return false, nil, err
	}
	there, err := pinned(m.folder)
	if there.User == 0 {
		return false, nil, nil // nobody can be in a namespace that isn't there
	}
	usable := err == nil && was != nil && was.User == m.spec.User && was.Range == m.r && was.Namespaces == there
	asked := usable && was.Root != nil && was.Root.Digest == m.digest
	if asked {
		asked = drift(m.folder, was, m.spaces.has(m.spec.ID)) == ""
	}
	if asked && !was.Root.HandedOver {
		return true, nil, nil
	}
	pid, err := resident(there.User)
	switch {
	case err != nil:
		return false, nil, err
	case pid != 0 && asked: // it has its mounts to itself
		return true, nil, nil
	case pid != 0:
		return false, nil, node.Errorf(node.Busy, "cannot make container %s anew: its process %d runs", m.spec.ID, pid)
	case usable:
		return false, &there, nil
	}
	return false, nil, nil
}

// root makes the root file system.
func (m *maker) root() (*root, error) {
	if err := writeFiles(m.folder, m.spec, m.r); err != nil {
		return nil, err
	}
	m.reached("files")
	upper, err := prepareLayer(m.log, m.spec, m.r, m.spec.Lower[0])
	if err != nil {
		return nil, err
	}
	m.reached("layer")
	userns, err := os.Open(filepath.Join(m.folder, userName))
	if err != nil {
		return nil, failed("open the user namespace of container", m.spec.ID, err)
	}
	defer userns.Close()
	made := &root{Digest: m.digest, Layer: m.spec.Layer, Upper: upper}
	if made.LayerIdentity, err = identify(m.spec.Layer); err != nil {
		return nil, failed("look at", m.spec.Layer, err)
	}
	in, err := newSpace()
	if err != nil {
		return nil, failed("make container", m.spec.ID, err)
	}
	if made.Bound, err = m.mount(in, userns); err == nil {
		err = m.spaces.keep(m.spec.ID, in) // all of it is there from here on, and nothing before
	}
	if err != nil {
		in.close()
		return nil, err
	}
	m.reached("kept")
	return made, nil
}

// mount mounts the root, and the binds in it, in a mount namespace.
func (m *maker) mount(in space, userns *os.File) ([]bound, error) {
	at := filepath.Join(m.folder, rootName)
	if err := os.Mkdir(at, folderMode); err != nil && !os.IsExist(err) {
		return nil, failed("make", at, err)
	}
	if err := in.do(func() error { return mountOverlay(m.folder, m.spec, userns, m.reached) }); err != nil {
		return nil, err
	}
	m.reached("overlay")
	var dir *os.File
	err := in.do(func() (err error) {
		dir, err = os.Open(at)
		return failed("open", at, err)
	})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return m.binds(in, dir, userns)
}

// binds mounts volumes and files into the open root.
func (m *maker) binds(in space, dir, userns *os.File) ([]bound, error) {
	b := &binder{root: dir, userns: userns}
	defer b.close()
	err := in.asOwner(m.r, func() error {
		for i, mount := range m.spec.mounts(m.folder) {
			if err := m.ctx.Err(); err != nil {
				return node.WithKind(node.Transient, err)
			}
			if err := b.bind(mount); err != nil {
				return err
			}
			m.reached(fmt.Sprint("bind ", i))
		}
		return b.verify()
	})
	return b.done, failed("make container", m.spec.ID, err)
}

// undo removes the parts that a failed Make has made. Namespaces that it found stay.
func (s *Store) undo(m *maker) error {
	if !m.begun {
		return nil
	}
	if m.fresh {
		return s.clear(m.spec.ID)
	}
	return s.spaces.letGo(m.spec.ID)
}
