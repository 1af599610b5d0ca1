package fakenode

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Start starts the zdb of a container on the volume at data, and returns its spec
// for Attach.
func (z *ZDB) Start(container string, mode workload.ZDBMode, data string) node.ZDBServerSpec {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.zdbs[container] = zdb{mode, data}
	if z.data[data] == nil {
		z.data[data] = map[string]*namespace{}
	}
	z.started.Broadcast()
	return node.ZDBServerSpec{Container: container, Mode: mode, Data: data}
}

// Kill ends the zdb of a container; its data stays.
func (z *ZDB) Kill(container string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.zdbs, container)
}

// erase removes the data on a volume that is gone.
func (z *ZDB) erase(data string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.data, data)
}

// Silence makes the next calls of Attach find a zdb that doesn't answer yet.
func (z *ZDB) Silence(calls int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.silent = calls
}

// Silent is how many of the calls of Silence are left.
func (z *ZDB) Silent() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.silent
}

// SetAddresses sets the node's own addresses, empty for none.
func (z *ZDB) SetAddresses(ipv4, ipv6 string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ipv4, z.ipv6 = ipv4, ipv6
}

// Ports are the ports of the attached containers.
func (z *ZDB) Ports() map[string]uint16 {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]uint16{}
	for id, s := range z.servers {
		out[id] = s.Port
	}
	return out
}

// Namespaces are the specs of the namespaces on the volume at data, also while no
// zdb has it open.
func (z *ZDB) Namespaces(data string) map[string]node.ZDBNamespaceSpec {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]node.ZDBNamespaceSpec{}
	for name, n := range z.data[data] {
		out[name] = n.spec
	}
	return out
}

// Data are the paths of all volumes with namespaces, and the number of these.
func (z *ZDB) Data() map[string]int {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]int{}
	for data, all := range z.data {
		out[data] = len(all)
	}
	return out
}

// PutNamespace adds a namespace to the volume at data, or replaces the one of its
// name, without any check; its values stay.
func (z *ZDB) PutNamespace(data string, spec node.ZDBNamespaceSpec) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.data[data] == nil {
		z.data[data] = map[string]*namespace{}
	}
	n := z.data[data][spec.Name]
	if n == nil {
		n = &namespace{values: map[string]string{}}
		z.data[data][spec.Name] = n
	}
	n.spec = spec
}

// RemoveNamespace removes a namespace from the volume at data.
func (z *ZDB) RemoveNamespace(data, name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.data[data], name)
}

// Release detaches a container behind the module's back.
func (z *ZDB) Release(container string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.servers, container)
}

// Connection is a user's connection to a zdb.
type Connection struct {
	zdb       *ZDB
	container string
	selected  *namespace
	readOnly  bool
}

// Dial connects to the zdb at one of the node's addresses.
func (z *ZDB) Dial(ip string, port uint16) (*Connection, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for id, s := range z.servers {
		if s.Port == port && ip != "" && (ip == z.ipv4 || ip == z.ipv6) {
			return &Connection{zdb: z, container: id}, nil
		}
	}
	return nil, node.Errorf(node.Transient, "cannot connect to %s port %d: connection refused", ip, port)
}

// Close closes it.
func (c *Connection) Close() error { return nil }

// Do runs a command, once the zdb runs. The error of a refused command is a redis.Error.
func (c *Connection) Do(command string, arguments ...any) (any, error) {
	args := make([]string, len(arguments))
	for i, a := range arguments {
		args[i] = fmt.Sprint(a)
	}
	c.zdb.mu.Lock()
	defer c.zdb.mu.Unlock()
	for c.zdb.zdbs[c.container].data == "" {
		c.zdb.started.Wait()
	}
	runs := c.zdb.zdbs[c.container]
	all := c.zdb.data[runs.data]
	if n := c.selected; n != nil && all[n.spec.Name] != n {
		return nil, redis.Error("ERR the namespace is gone")
	}
	switch {
	case command == "PING":
		return "PONG", nil
	case command == "SELECT" && len(args) > 0:
		return c.choose(all[args[0]], args[1:])
	case command == "GET" && len(args) == 1 && c.selected != nil:
		if value, ok := c.selected.values[args[0]]; ok {
			return []byte(value), nil
		}
		return nil, nil
	case command == "SET" && len(args) == 2 && c.selected != nil && !c.readOnly:
		return c.selected.set(runs.mode, args[0], args[1])
	}
	return nil, redis.Error("ERR not allowed")
}

// choose selects a namespace.
func (c *Connection) choose(n *namespace, password []string) (any, error) {
	open := n != nil && (n.spec.Password == "" || len(password) > 0 && password[0] == n.spec.Password)
	reads := n != nil && n.spec.Public && len(password) == 0
	if !open && !reads {
		return nil, redis.Error("ERR access denied")
	}
	c.selected, c.readOnly = n, !open
	return "OK", nil
}

// set sets a value, and returns its key.
func (n *namespace) set(mode workload.ZDBMode, key, value string) (any, error) {
	if n.used()-uint64(len(n.values[key]))+uint64(len(value)) > n.spec.Size {
		return nil, redis.Error("ERR the namespace is full")
	}
	if mode == workload.ZDBSeq && key == "" {
		n.last++
		key = strconv.FormatUint(n.last, 10)
	} else if mode == workload.ZDBSeq && n.values[key] == "" {
		return nil, redis.Error("ERR the zdb chooses the key")
	}
	n.values[key] = value
	return []byte(key), nil
}
