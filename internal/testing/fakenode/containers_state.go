package fakenode

import (
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// Put adds containers that aren't started, or replaces those of the same IDs,
// without any check. Their images need not exist.
func (c *Containers) Put(specs ...node.ContainerSpec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, spec := range specs {
		one := &container{spec: spec, info: node.ContainerInfo{
			ID: spec.ID, User: spec.User, Hash: spec.Hash, State: node.ContainerCreated, Namespace: "/run/ns/" + spec.ID, Volumes: volumes(spec),
		}}
		c.places.keep(one.info.Namespace, networkPlace)
		if have := c.have[spec.ID]; have != nil {
			one.info.State, one.info.PID, one.starts, one.program = have.info.State, have.info.PID, have.starts, have.program
		}
		c.have[spec.ID] = one
	}
}

// Remove removes a container behind the module's back.
func (c *Containers) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.have[id]; one != nil {
		c.end(one)
		delete(c.have, id)
	}
}

// Specs are the specs of all containers.
func (c *Containers) Specs() map[string]node.ContainerSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]node.ContainerSpec{}
	for id, one := range c.have {
		out[id] = one.spec
	}
	return out
}

// Runs reports whether a container runs.
func (c *Containers) Runs(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.have[id]
	return one != nil && c.now(one).State == node.ContainerRunning
}

// Starts is how often a container was started since it was made or changed.
func (c *Containers) Starts(id string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.have[id]; one != nil {
		return one.starts
	}
	return 0
}

// Say adds lines to a container's log.
func (c *Containers) Say(id string, lines ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range lines {
		c.logs[id] = append(c.logs[id], node.LogLine{At: time.Now().UnixNano(), Stream: "stdout", Text: text})
	}
}

// Exits makes the container of that ID end with an exit code whenever it is started.
func (c *Containers) Exits(id string, code uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exits[id] = code
}

// Stays ends Exits.
func (c *Containers) Stays(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exits, id)
}

// End ends a running container by itself, with an exit code: it waits an hour for
// its next start.
func (c *Containers) End(id string, code uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.have[id]; one != nil {
		c.wait(one, code, time.Hour)
	}
}

// Reboot ends all processes, and makes no start up for them.
func (c *Containers) Reboot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.have {
		c.end(one)
		one.info.State = node.ContainerCreated
	}
}

// SetDrift makes a container differ from how it was made, until Create or Start
// repairs it.
func (c *Containers) SetDrift(id, drift string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.have[id]; one != nil {
		one.info.Drift = drift
	}
}

func (c *Containers) forgetLog(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.logs, id)
}
