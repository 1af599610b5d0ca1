package fakenode

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

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
