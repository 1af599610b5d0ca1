package store

import "github.com/croft-edge/croft/provision/store/persist"

// telling tells which names may have changed, after each change of the disk, also one that has failed: it may have happened.
type telling struct {
	persist.Provider
	changed func(names ...string)
}

// told wraps a disk, if anybody wants to know.
func told(disk persist.Provider, changed func(names ...string)) persist.Provider {
	if changed == nil {
		return disk
	}
	return telling{Provider: disk, changed: changed}
}

// Put implements persist.Provider.
func (t telling) Put(objects ...persist.Object) error {
	err := t.Provider.Put(objects...)
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.Name)
	}
	t.changed(names...)
	return err
}

// Delete implements persist.Provider.
func (t telling) Delete(names ...string) error {
	err := t.Provider.Delete(names...)
	t.changed(names...)
	return err
}

// Move implements persist.Provider.
func (t telling) Move(from, to string) error {
	err := t.Provider.Move(from, to)
	t.changed(from, to)
	return err
}
