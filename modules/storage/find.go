package storage

import "github.com/croft-edge/croft/pkg/node"

// find returns the pool that the thing lies on, with its label. NotExist when
// it lies on none, Transient when it lies, or may lie, on one that can't be read.
func (m *Module) find(k kind, name string) (*pool, label, error) {
	for _, p := range m.pools {
		l, found, err := p.look(k, name)
		if err != nil {
			return nil, label{}, node.Errorf(node.Transient, "cannot reach %s %s: %v", k.what, name, err)
		}
		if found {
			return p, l, nil
		}
	}
	return nil, label{}, node.Errorf(node.NotExist, "cannot find %s %s: there is none", k.what, name)
}

// look asks the pool for a thing, and its index when the pool can't answer.
func (p *pool) look(k kind, name string) (l label, found bool, err error) {
	f, err := p.open()
	if err == nil {
		defer f.Close()
		l, found, err = getLabel(p.place(k, name), k.attribute, name)
	}
	if err != nil && !p.index.has(k, name) {
		return label{}, false, nil
	}
	return l, found, err
}
