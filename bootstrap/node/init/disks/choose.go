package disks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/clip"
)

// mostShown bounds what is shown of what is on a disk, in characters.
const mostShown = 80

// Wish is what the operator says of disks: all empty ones, or these, which may have a type before them (SSD:/dev/sda); and those that may
// be overwritten.
type Wish struct {
	Empty      bool
	Named      []string
	Wipe       []string
	StateNamed string // UUID of the pool with the state
}

// Left is a disk that is left alone.
type Left struct{ Path, Why string }

// Plan is what becomes of the disks.
type Plan struct {
	// Use are the disks that croftd gets, as its setting disk has them; Make are those of them that may become the first pool.
	Use, Make []string
	// Left are the others.
	Left []Left
	// Missing are UUIDs of this node's pools that no disk has.
	Missing []string
}

// Choose decides which disks the node uses. own are the UUIDs of the node's pools by their names, as its state has them; nil before the
// state is found: then every disk with a pool is looked at, and none that may be another node's is used for more.
//
// A disk with anything on it is only ever used if it is named for wiping, or has a pool of this node's.
func Choose(found []Disk, wish Wish, own map[string]string) Plan {
	var p Plan
	have := map[string]bool{}
	for _, d := range found {
		have[d.UUID] = true
		use, makes, why := decide(d, wish, own)
		switch {
		case use != "":
			p.Use = append(p.Use, use)
			if makes {
				p.Make = append(p.Make, pathOf(use))
			}
		case why != "":
			p.Left = append(p.Left, Left{d.Path(), why})
		}
	}
	// In the operator's order: the first one may become the first pool.
	if len(wish.Named) > 0 {
		order := func(path string) int {
			for i, name := range wish.Named {
				if pathOf(name) == path || name == path {
					return i
				}
			}
			return len(wish.Named)
		}
		slices.SortStableFunc(p.Make, func(a, b string) int { return order(a) - order(b) })
	}
	for _, uuid := range own {
		if !have[uuid] {
			p.Missing = append(p.Missing, uuid)
		}
	}
	slices.Sort(p.Missing)
	return p
}

// decide decides about one disk: as what it is used, whether a first pool may be made on it, or why it is left alone.
func decide(d Disk, wish Wish, own map[string]string) (use string, makes bool, why string) {
	named := nameOf(d, wish.Named)
	path := d.Path()
	if named != "" {
		path = named
	}
	switch {
	case d.Boot:
		return "", false, ""
	case d.Bytes == 0:
		return "", false, ""
	case d.Pool != "" && (own == nil || own[d.Pool] == d.UUID):
		// Before the state is known it may be on this disk, whatever the operator says of others.
		return path, own == nil && (named != "" || wish.Empty), ""
	case d.ReadOnly:
		return "", false, "it can only be read"
	case d.Unread != "":
		return "", false, clip.Line(d.Unread, mostShown)
	case named != "":
		// croftd refuses one with something on it that isn't named for wiping, and says so.
		return path, true, ""
	case d.Pool != "":
		return "", false, fmt.Sprintf("it holds pool %s of another node, UUID %s", clip.Line(d.Pool, mostShown), d.UUID)
	case d.Holds != "":
		return "", false, "it holds " + clip.Line(d.Holds, mostShown)
	case d.Removable:
		return "", false, "it is empty, but can be taken out: name it"
	case !wish.Empty:
		return "", false, "it is empty; the setting disks=empty would make it a pool"
	}
	return path, true, ""
}

// nameOf is the operator's name of a disk, with its type; empty if it has none.
func nameOf(d Disk, named []string) string {
	for _, text := range named {
		if slices.Contains(d.Names(), pathOf(text)) {
			return text
		}
	}
	return ""
}

// pathOf is a disk's path without the type.
func pathOf(text string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, "SSD:"), "HDD:")
}

// Times to wait for disks.
const (
	// lateDisks is how long no further disk may have appeared before a node without a state makes one, on a machine whose disks may be
	// late: behind USB, SAS or SATA; soonDisks is that of other machines.
	lateDisks = 10 * time.Second
	soonDisks = time.Second
	// otherPools is how long a node with its state waits for its other pools.
	otherPools = 10 * time.Second
)

// Seen is what a machine that boots has seen of its disks.
type Seen struct {
	// Drivers tells that the drivers of all devices are loaded.
	Drivers bool
	// Late tells that disks may come late.
	Late bool
	// Quiet is the time since the last disk has appeared.
	Quiet time.Duration
}

// Settled reports whether a node that hasn't found its state may make a new one: it would be another node if its disk came later.
func (s Seen) Settled() bool {
	if !s.Drivers {
		return false
	}
	if s.Late {
		return s.Quiet >= lateDisks
	}
	return s.Quiet >= soonDisks
}

// Complete reports whether a node that has found its state goes on: all its pools are there, or it has waited for them.
func (s Seen) Complete(p Plan) bool { return len(p.Missing) == 0 || s.Drivers && s.Quiet >= otherPools }
