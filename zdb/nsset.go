package zdb

const mostValue = 63

// nsset is NSSET: it changes a property of a namespace. All but lock and freeze
// outlive the process.
func (m *management) nsset(c *session, args [][]byte) {
	name, property, value := args[1], string(args[2]), args[3]
	switch {
	case len(name) > mostName:
		c.fail("Namespace too long")
		return
	case len(value) > mostValue && m.v2:
		c.fail("Argument too long")
		return
	case len(value) > mostValue:
		c.fail("Invalid value")
		return
	}
	passing := m.v2 && (property == "lock" || property == "freeze")
	if string(name) == defaultName && !passing {
		c.fail("Cannot update default namespace")
		return
	}
	ns := m.named(c, name)
	switch {
	case ns == nil:
	case passing:
		ns.pass(property, value[0] == '1')
		c.ok()
	case property == "mode" && m.v2:
		m.nssetMode(c, ns, string(value))
	default:
		m.nssetKept(c, ns, property, value)
	}
}

// nssetKept sets a property of the descriptor.
func (m *management) nssetKept(c *session, ns *namespace, property string, value []byte) {
	d := ns.Descriptor
	switch property {
	case "maxsize":
		n := number(value)
		if n < 0 {
			c.fail("Invalid value")
			return
		}
		d.MaxSize = uint64(n)
	case "password":
		d.Password = string(value)
		if d.Password == "*" {
			d.Password = ""
		}
	case "public":
		d.Private = value[0] != '1'
	case "worm":
		d.Worm = value[0] == '1'
	default:
		c.fail("Invalid property")
		return
	}
	if err := m.all.change(ns, d); err != nil {
		m.log.Error().Err(err).Str("namespace", ns.Name).Str("property", property).Msg("cannot change a namespace")
		c.fail(textInternal)
		return
	}
	if property == "maxsize" && !ns.broken() {
		ns.store.SetMaxSize(d.MaxSize)
	}
	m.hooks.Run("namespace-updated", ns.Name)
	c.ok()
}

// nssetMode changes the mode of a namespace that never had a key.
func (m *management) nssetMode(c *session, ns *namespace, mode string) {
	switch {
	case m.oneMode:
		c.fail("This server instance is configured to use a single runtime mode")
	case ns.broken():
		c.fail(textBroken)
	case !ns.fresh():
		c.fail("Cannot change mode of used namespace")
	case mode != ModeUser && mode != ModeSequential:
		c.fail("Invalid property value (expected: user, seq)")
	case mode == ns.Mode:
		c.ok()
	default:
		if err := m.all.renew(ns, mode); err != nil {
			m.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot change the mode of a namespace")
			c.fail(textInternal)
			return
		}
		m.hooks.Run("namespace-updated", ns.Name)
		c.ok()
	}
}
