package cgroup

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Seat is the control group of a process that limits itself.
type Seat struct {
	// Group holds the limits.
	Group Group
	// Missing are the names of limits that this machine can't enforce, Given those
	// that somebody else had set before and that were left unchanged.
	Missing, Given []string
	// moved are the folders that the process left, in the order of entered.
	moved   []place
	entered []place
}

// Settle limits this process. Where a service manager has given it a group of its
// own, it stays there, keeps the limits set there, and adds the others; elsewhere it
// moves to the group of that name. It moves only in the hierarchies that merely limit:
// a service manager finds it in the others.
func Settle(name string, l Limits) (*Seat, error) {
	all, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	return settle(all, name, l, os.Getpid()), nil
}

func settle(all []Hierarchy, name string, l Limits, pid int) *Seat {
	s, where := &Seat{}, managed(all)
	for _, h := range all {
		limits := slices.DeleteFunc(l.all(), func(one limit) bool { return !h.has(one.controller) })
		if len(limits) == 0 {
			continue
		}
		at := place{h, h.Group}
		if !h.alone(limits, pid) {
			at.dir = h.beside(name, where)
			if at.make() != nil || at.enter(pid) != nil {
				continue
			}
			s.moved, s.entered = append(s.moved, place{h, h.Group}), append(s.entered, at)
		}
		s.Group.places = append(s.Group.places, at)
	}
	for _, one := range l.all() {
		held, given := s.hold(one)
		if given {
			s.Given = append(s.Given, one.name)
		} else if !held {
			s.Missing = append(s.Missing, one.name)
		}
	}
	return s
}

// hold enforces one limit. One that the process's own group has already is given.
func (s *Seat) hold(one limit) (held, given bool) {
	for _, p := range s.Group.places {
		if !p.has(one.controller) {
			continue
		}
		inPlace := p.dir == p.Group && !nameForm.MatchString(filepath.Base(p.dir))
		now := one.reading(p.version(), p.dir)
		if inPlace && now != 0 && (!one.weight || now != everybodysWeight) {
			return true, true
		}
		held = Hold(p.dir, one.ways(p.version())) || held
	}
	return held, false
}

// alone reports whether the process's group can be limited, and only the process and
// its descendants are in it.
func (h Hierarchy) alone(limits []limit, pid int) bool {
	there := slices.ContainsFunc(limits, func(l limit) bool { return l.there(h.version(), h.Group) })
	return there && !slices.ContainsFunc(processes(h.Group), func(other int) bool { return !descends(other, pid) })
}

// descends reports whether a process is that ancestor or was started by it; true for
// one that has ended meanwhile.
func descends(pid, ancestor int) bool {
	for range 64 {
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return true
		}
		// The name, in brackets, may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return false
		}
	}
	return false
}

// BoundHeap makes Go's garbage collector work harder from two thirds of the seat's memory ceiling on, before
// the kernel ends the process. Without a ceiling, or with GOMEMLIMIT in the environment, it does nothing.
func (s *Seat) BoundHeap() {
	ceiling := s.Group.Limits(Limits{Memory: 1}).Memory
	if ceiling == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(int64(min(ceiling, 1<<50) / 3 * 2))
}

// Leave moves the process back to its former groups, and removes the groups that
// were made for it.
func (s *Seat) Leave() {
	for i, from := range s.moved {
		if from.enter(os.Getpid()) != nil {
			// It is gone meanwhile, like that of another node in this process.
			_ = place{from.Hierarchy, filepath.Dir(from.dir)}.enter(os.Getpid())
		}
		_ = os.Remove(s.entered[i].dir)
	}
}
