package zdb

import "slices"

// command is one of the table. run appends the reply.
type command struct {
	name  string
	run   func(c *session, args [][]byte)
	index int
	// args is the number of arguments, the name included, none of which may be empty;
	// 0 when run checks that.
	args int
	// key is true if the first argument is a key.
	key bool
	// admin is true if only admins may run it.
	admin bool
	// data is true if it is refused while the namespace is frozen or damaged.
	data bool
	// v2 is true if the server of March 2020 didn't know it.
	v2 bool
	// reply is the answer of WAIT for it.
	reply string
}

// groups are the parts of a server that run commands.
type groups struct {
	access     *access
	history    *history
	reports    *reports
	keys       *keyCommands
	management *management
	pages      *pages
	system     *system
	waits      *waits
}

// commands are all commands, in the order of 0-db's table.
func (g groups) commands() []*command {
	return []*command{
		{name: "*", run: g.system.asterisk},
		{name: "WAIT", run: g.waits.hold},
		{name: "MIRROR", run: g.system.mirror, admin: true},
		{name: "MASTER", run: g.system.master, admin: true},
		{name: "PING", run: g.system.ping},
		{name: "TIME", run: g.system.clock},
		{name: "AUTH", run: g.access.auth},
		{name: "HOOKS", run: g.system.hookList, admin: true, v2: true},
		{name: "INDEX", run: g.system.index, admin: true, v2: true},
		{name: "DATA", run: g.system.raw, admin: true, v2: true},
		{name: "SET", run: g.keys.set},
		{name: "SETX", run: g.keys.set},
		{name: "GET", run: g.keys.get, args: 2, key: true, data: true},
		{name: "MGET", run: g.keys.mget, v2: true},
		{name: "DEL", run: g.keys.del},
		{name: "EXISTS", run: g.keys.exists, args: 2, key: true, data: true},
		{name: "CHECK", run: g.keys.check, args: 2, key: true, data: true},
		{name: "LENGTH", run: g.keys.length, args: 2, key: true, data: true, v2: true},
		{name: "KEYTIME", run: g.keys.keytime, args: 2, key: true, data: true, v2: true},
		{name: "SCAN", run: g.pages.scan, data: true},
		{name: "SCANX", run: g.pages.scan, data: true},
		{name: "RSCAN", run: g.pages.scanBack, data: true},
		{name: "KSCAN", run: g.pages.keysOf},
		{name: "HISTORY", run: g.history.versions},
		{name: "KEYCUR", run: g.pages.keyCursor, args: 2, key: true, data: true},
		{name: "INFO", run: g.reports.info},
		{name: "STOP", run: g.system.stop},
		{name: "DBSIZE", run: g.system.dbsize},
		{name: "NSNEW", run: g.management.nsnew, args: 2, admin: true},
		{name: "NSDEL", run: g.management.nsdel, args: 2, admin: true},
		{name: "NSLIST", run: g.management.nslist},
		{name: "NSSET", run: g.management.nsset, args: 4, admin: true},
		{name: "NSINFO", run: g.reports.nsinfo, args: 2},
		{name: "NSJUMP", run: g.management.nsjump, admin: true, v2: true},
		{name: "SELECT", run: g.access.selectNamespace},
		{name: "RELOAD", run: g.management.reload, args: 2, admin: true},
		{name: "FLUSH", run: g.management.flush},
	}
}

// table finds commands by name.
type table struct {
	all    []*command
	byName map[uint64]*command
}

func newTable(compat string, commands []*command) table {
	t := table{byName: map[uint64]*command{}}
	t.all = slices.DeleteFunc(commands, func(c *command) bool { return c.v2 && compat == CompatV1 })
	for i, c := range t.all {
		c.index = i
		c.reply = "+" + c.name + "\r\n"
		word, _ := pack([]byte(c.name))
		t.byName[word] = c
	}
	// 0-db takes no name for this one too.
	none, _ := pack(nil)
	t.byName[none] = t.find([]byte("*"))
	return t
}

// find is the command of a whole name; nil for none.
func (t *table) find(name []byte) *command {
	word, ok := pack(name)
	if !ok {
		return nil
	}
	return t.byName[word]
}

// pack is a name in capitals as a number. No name is longer than 7 bytes.
func pack(name []byte) (uint64, bool) {
	if len(name) > 7 {
		return 0, false
	}
	word := uint64(len(name))
	for _, b := range name {
		if b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		word = word<<8 | uint64(b)
	}
	return word, true
}

// allowed checks a request before its command runs, and answers if it may not.
func (cmd *command) allowed(c *session, args [][]byte, count *counters) bool {
	if cmd.admin && !c.admin {
		denied(c, count)
		return false
	}
	if cmd.args != 0 {
		if len(args) != cmd.args {
			c.fail("Unexpected arguments")
			return false
		}
		for _, a := range args {
			if len(a) == 0 {
				c.fail("Invalid argument")
				return false
			}
		}
	}
	if cmd.key && len(args[1]) > mostKey {
		c.fail("Invalid key")
		return false
	}
	if cmd.data && c.ns.refuse != "" {
		c.fail(c.ns.refuse)
		return false
	}
	return true
}

// denied answers a command that only admins may run.
func denied(c *session, count *counters) {
	count.unauthorized++
	c.fail("Permission denied")
}
