package fakenode

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// pause is the time between the end of a program and its next start.
const pause = 10 * time.Millisecond

// Containers is the container module's containers; no process runs. It implements
// node.Containers.
type Containers struct {
	calls  *Calls
	images *Images
	mu     sync.Mutex
	have   map[string]*container
	logs   map[string][]node.LogLine
	// exits are the exit codes of containers that end once they are started.
	exits  map[string]uint64
	places *places
	// onStart and onEnd are called when a container's program starts and ends.
	onStart func(spec node.ContainerSpec)
	onEnd   func(id string)
}

var _ node.Containers = (*Containers)(nil)

// container is a container with the spec that it was made by.
type container struct {
	spec    node.ContainerSpec
	info    node.ContainerInfo
	program Program
	starts  uint64
}

// NewContainers has no containers. They are made from images, and have namespaces of
// places.
func NewContainers(calls *Calls, images *Images) *Containers {
	c := &Containers{
		calls: calls, images: images, have: map[string]*container{}, logs: map[string][]node.LogLine{}, exits: map[string]uint64{},
		places: newPlaces(), onStart: func(node.ContainerSpec) {}, onEnd: func(string) {},
	}
	images.onRelease = c.forgetLog
	return c
}

// Create implements node.Containers.
func (c *Containers) Create(spec node.ContainerSpec) (node.ContainerInfo, error) {
	return answer(c.calls, "Containers.Create", spec.ID, func() (node.ContainerInfo, error) {
		if err := checkContainer(spec); err != nil {
			return node.ContainerInfo{}, err
		}
		what, claim := "make container "+spec.ID, node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
		c.mu.Lock()
		defer c.mu.Unlock()
		have := c.have[spec.ID]
		if have != nil {
			if err := claim.Check(what, have.spec.Hash); err != nil {
				return node.ContainerInfo{}, err
			}
			if have.spec.User != spec.User {
				return node.ContainerInfo{}, node.Errorf(node.Exist, "cannot %s for user %s: user %s has one of that ID", what, spec.User, have.spec.User)
			}
		}
		content, digest, ok := c.images.ready(spec.ID)
		if !ok {
			return node.ContainerInfo{}, node.Errorf(node.NotExist, "cannot %s: it has no image", what)
		}
		program, fails := content.start(spec)
		if fails != nil {
			return node.ContainerInfo{}, fails
		}
		if have == nil || !same(have.spec, spec) {
			c.end(have)
			have = &container{info: node.ContainerInfo{State: node.ContainerCreated}}
			c.have[spec.ID] = have
		}
		have.spec, have.program = spec, program
		have.info.ID, have.info.User, have.info.Hash, have.info.Image = spec.ID, spec.User, spec.Hash, digest
		have.info.Namespace, have.info.Volumes, have.info.Drift = "/run/ns/"+spec.ID, volumes(spec), ""
		c.places.keep(have.info.Namespace, networkPlace)
		return c.now(have), nil
	})
}

// start returns the program that a container of an image starts with.
func (c Content) start(spec node.ContainerSpec) (Program, error) {
	if c.Programs == nil {
		return Program{}, nil
	}
	name := ""
	if len(spec.Entrypoint) > 0 {
		name = spec.Entrypoint[0]
	}
	program, ok := c.Programs[name]
	if !ok {
		return program, node.Errorf(node.Invalid, "cannot make container %s: its image has no program %q", spec.ID, name)
	}
	return program, nil
}

func volumes(spec node.ContainerSpec) []string {
	out := []string{}
	for _, m := range spec.Mounts {
		out = append(out, m.Volume)
	}
	return out
}

// Start implements node.Containers.
func (c *Containers) Start(id string) (node.ContainerInfo, error) {
	return answer(c.calls, "Containers.Start", id, func() (node.ContainerInfo, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		one, err := c.find("start", id)
		if err != nil {
			return node.ContainerInfo{}, err
		}
		one.info.Drift = ""
		if one.info.State != node.ContainerRunning {
			c.run(one)
		}
		return c.now(one), nil
	})
}

// run starts a container's program. The caller holds mu.
func (c *Containers) run(one *container) {
	id := one.spec.ID
	one.starts++
	one.info.Restarts = one.starts - 1
	if one.program.Says != "" {
		c.logs[id] = append(c.logs[id], node.LogLine{At: time.Now().UnixNano(), Stream: "stdout", Text: one.program.Says})
	}
	code, exits := c.exits[id]
	if one.program.Exits {
		code, exits = one.program.Code, true
	}
	one.info.State, one.info.PID = node.ContainerRunning, c.places.process()
	c.onStart(one.spec)
	if exits {
		c.wait(one, code, pause)
	}
}

// wait is a container that has ended by itself.
func (c *Containers) wait(one *container, code uint64, pause time.Duration) {
	c.end(one)
	now := time.Now().UnixNano()
	one.info.State, one.info.ExitCode, one.info.Ended, one.info.Next = node.ContainerWaiting, code, now, now+int64(pause)
	one.info.LastLog = []string{}
	lines := c.logs[one.spec.ID]
	for _, l := range lines[max(0, len(lines)-20):] {
		one.info.LastLog = append(one.info.LastLog, l.Text)
	}
}

// end ends the process of a container, if it has one.
func (c *Containers) end(one *container) {
	if one == nil || one.info.PID == 0 {
		return
	}
	c.places.end(one.info.PID)
	one.info.State, one.info.PID = node.ContainerCreated, 0
	c.onEnd(one.spec.ID)
}

// now is a container's present state: one that waits has been started again when its
// time has come.
func (c *Containers) now(one *container) node.ContainerInfo {
	if one.info.State == node.ContainerWaiting && time.Now().UnixNano() >= one.info.Next {
		c.run(one)
	}
	out := one.info
	out.Volumes, out.LastLog = slices.Clone(out.Volumes), slices.Clone(out.LastLog)
	return out
}

// Inspect implements node.Containers.
func (c *Containers) Inspect(id string) (node.ContainerInfo, error) {
	return answer(c.calls, "Containers.Inspect", id, func() (node.ContainerInfo, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		one, err := c.find("find", id)
		if err != nil {
			return node.ContainerInfo{}, err
		}
		return c.now(one), nil
	})
}

// Delete implements node.Containers.
func (c *Containers) Delete(id string) error {
	return carryOut(c.calls, "Containers.Delete", id, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		one, err := c.find("remove", id)
		if err != nil {
			return err
		}
		c.end(one)
		c.places.forget(one.info.Namespace)
		delete(c.have, id)
		return nil
	})
}

// List implements node.Containers.
func (c *Containers) List() ([]node.ContainerInfo, error) {
	return answer(c.calls, "Containers.List", "", func() ([]node.ContainerInfo, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		out := []node.ContainerInfo{}
		for _, id := range sorted(c.have) {
			one := c.now(c.have[id])
			one.LastLog = nil
			out = append(out, one)
		}
		return out, nil
	})
}

// Logs implements node.Containers.
func (c *Containers) Logs(id string, lines uint64) ([]node.LogLine, error) {
	return answer(c.calls, "Containers.Logs", id, func() ([]node.LogLine, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, err := c.find("read the log of", id); err != nil {
			return nil, err
		}
		all := c.logs[id]
		return append([]node.LogLine{}, all[len(all)-min(len(all), int(min(lines, 10_000))):]...), nil
	})
}

// Stats implements node.Containers.
func (c *Containers) Stats(id string) (node.ContainerStats, error) {
	return answer(c.calls, "Containers.Stats", id, func() (node.ContainerStats, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		one, err := c.find("measure", id)
		if err != nil {
			return node.ContainerStats{}, err
		}
		if c.now(one).State != node.ContainerRunning {
			return node.ContainerStats{}, node.Errorf(node.Busy, "cannot measure container %s: it doesn't run", id)
		}
		return node.ContainerStats{ID: id, At: time.Now().UnixNano(), CPU: 1e6, Memory: 1 << 20, MemoryLimit: one.spec.Memory, PIDs: 1, PIDsLimit: 1000}, nil
	})
}

// Status implements node.Containers.
func (c *Containers) Status() (node.ContainerStatus, error) {
	return answer(c.calls, "Containers.Status", "", func() (node.ContainerStatus, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		out := node.ContainerStatus{Containerd: "/run/containerd.sock", Version: "0", Runc: "0", Cgroup: 2, Containers: uint64(len(c.have))}
		if len(c.have) > 0 {
			out.LogCarrier, out.LogCarrierMemory = 1, 1<<20
		}
		return out, nil
	})
}

// find returns a container. The caller holds mu.
func (c *Containers) find(what, id string) (*container, error) {
	if err := checkName(what+" container", id); err != nil {
		return nil, err
	}
	if one, ok := c.have[id]; ok {
		return one, nil
	}
	return nil, node.Errorf(node.NotExist, "cannot %s container %s: there is none", what, strings.TrimSpace(id))
}
