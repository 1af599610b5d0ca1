package volume

// Content is all that lies on a pool.
type Content struct {
	Filesystems *Filesystems
	Disks       *Disks
	States      *States
}

// all are the kinds, in the order in which labels returns theirs.
func (c Content) all() []*subvolumes {
	return []*subvolumes{&c.Filesystems.subvolumes, &c.Disks.subvolumes, &c.States.subvolumes}
}

// labels are the labels of each kind; occupied tells whether there is any.
func (c Content) labels() (out []map[string]Label, occupied bool, err error) {
	for _, all := range c.all() {
		labels, err := all.Labels()
		if err != nil {
			return nil, false, err
		}
		out = append(out, labels)
		occupied = occupied || len(labels) > 0
	}
	return out, occupied, nil
}
