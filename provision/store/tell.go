package store

import "github.com/croft-edge/croft/provision/store/durable"

// telling tells which names may have changed, after each change of the disk, also one that has failed: it may have happened.
type telling struct {
	durable.Provider
	begin   func()
	changed func(names ...string)
}

// told wraps a disk, if anybody wants to know.
func told(disk durable.Provider, begin func(), changed func(names ...string)) durable.Provider {
	if changed == nil {
		return disk
	}
	if begin == nil {
		begin = func() {}
	}
	return telling{Provider: disk, begin: begin, changed: changed}
}

// Put implements durable.Provider.
func (t telling) Put(objects ...durable.Object) error {
	t.begin()
	err := t.Provider.Put(objects...)
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.Name)
	}
	t.changed(names...)
	return err
}

// Delete implements durable.Provider.
func (t telling) Delete(names ...string) error {
	t.begin()
	err := t.Provider.Delete(names...)
	t.changed(names...)
	return err
}

// Move implements durable.Provider.
func (t telling) Move(from, to string) error {
	t.begin()
	err := t.Provider.Move(from, to)
	t.changed(from, to)
	return err
}
