package zdb

import "slices"

// command is one of the table. run appends the reply.
type command struct {
	name  string
	run   func(s *Server, c *session, args [][]byte)
	index int
	// args is how many arguments there are, the name included; 0 when run looks.
	// None of them may be empty.
	args int
	// key says that the first argument is a key.
	key bool
	// admin says that only admins may.
	admin bool
	// data says that it is refused while the namespace is frozen or damaged.
	data bool
	// v2 says that the server of March 2020 didn't know it.
	v2 bool
	// reply is what WAIT answers for it.
	reply string
}

// commands are all commands, in the order of 0-db's table.
func commands() []*command {
	return []*command{
		{name: "*", run: (*Server).asterisk},
		{name: "WAIT", run: (*Server).waitFor},
		{name: "MIRROR", run: (*Server).mirror, admin: true},
		{name: "MASTER", run: (*Server).master, admin: true},
		{name: "PING", run: (*Server).ping},
		{name: "TIME", run: (*Server).clock},
		{name: "AUTH", run: (*Server).auth},
		{name: "HOOKS", run: (*Server).hookList, admin: true, v2: true},
		{name: "INDEX", run: (*Server).index, admin: true, v2: true},
		{name: "DATA", run: (*Server).raw, admin: true, v2: true},
		{name: "SET", run: (*Server).set},
		{name: "SETX", run: (*Server).set},
		{name: "GET", run: (*Server).get, args: 2, key: true, data: true},
		{name: "MGET", run: (*Server).mget, v2: true},
		{name: "DEL", run: (*Server).del},
		{name: "EXISTS", run: (*Server).exists, args: 2, key: true, data: true},
		{name: "CHECK", run: (*Server).check, args: 2, key: true, data: true},
		{name: "LENGTH", run: (*Server).length, args: 2, key: true, data: true, v2: true},
		{name: "KEYTIME", run: (*Server).keytime, args: 2, key: true, data: true, v2: true},
		{name: "SCAN", run: (*Server).scan, data: true},
		{name: "SCANX", run: (*Server).scan, data: true},
		{name: "RSCAN", run: (*Server).scanBack, data: true},
		{name: "KSCAN", run: (*Server).keysOf},
		{name: "HISTORY", run: (*Server).history},
		{name: "KEYCUR", run: (*Server).keyCursor, args: 2, key: true, data: true},
		{name: "INFO", run: (*Server).info},
		{name: "STOP", run: (*Server).stop},
		{name: "DBSIZE", run: (*Server).dbsize},
		{name: "NSNEW", run: (*Server).nsnew, args: 2, admin: true},
		{name: "NSDEL", run: (*Server).nsdel, args: 2, admin: true},
		{name: "NSLIST", run: (*Server).nslist},
		{name: "NSSET", run: (*Server).nsset, args: 4, admin: true},
		{name: "NSINFO", run: (*Server).nsinfo, args: 2},
		{name: "NSJUMP", run: (*Server).nsjump, admin: true, v2: true},
		{name: "SELECT", run: (*Server).selectNamespace},
		{name: "RELOAD", run: (*Server).reload, args: 2, admin: true},
		{name: "FLUSH", run: (*Server).flush},
	}
}

// table finds commands by name.
type table struct {
	all    []*command
	byName map[uint64]*command
}

func newTable(compat string) table {
	t := table{byName: map[uint64]*command{}}
	t.all = slices.DeleteFunc(commands(), func(c *command) bool { return c.v2 && compat == CompatV1 })
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

// find is nil for a name that isn't one of the table, whole.
func (t *table) find(name []byte) *command {
	word, ok := pack(name)
	if !ok {
		return nil
	}
	return t.byName[word]
}

// pack makes a number of a name, in capitals. No name is longer than 7 bytes.
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

// allowed answers what is wrong with a request before its command runs.
func (s *Server) allowed(c *session, cmd *command, args [][]byte) bool {
	if cmd.admin && !c.admin {
		s.denied(c)
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

func (s *Server) denied(c *session) {
	s.count.unauthorized++
	c.fail("Permission denied")
}
