package transport

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Endpoint is the address and the login of a redis or a broker.
type Endpoint struct {
	Network, Address   string
	Username, Password string
	DB                 int
	// Shown is the URL without its password.
	Shown string
}

// ParseURL reads redis://[[user]:password@]host[:port][/db], unix://path[?db=n]
// and, as the bare library has it, tcp://[password@]host:port.
func ParseURL(raw string) (Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// url's error would show the password.
		return Endpoint{}, node.Errorf(node.Invalid, "cannot read the bus URL: it isn't a URL; allowed are redis://[:password@]host[:port][/db], tcp://host:port and unix:///path")
	}
	e := Endpoint{Shown: u.Redacted()}
	if u.User != nil {
		e.Username = u.User.Username()
		e.Password, _ = u.User.Password()
		if _, has := u.User.Password(); !has {
			e.Username, e.Password = "", u.User.Username()
			u.User = url.UserPassword("", "xxxxx")
			e.Shown = u.String()
		}
	}
	db := u.Query().Get("db")
	switch u.Scheme {
	case "redis", "tcp":
		e.Network = "tcp"
		e.Address, err = hostPort(u)
		if path := strings.Trim(u.Path, "/"); path != "" {
			db = path
		}
	case "unix":
		e.Network, e.Address = "unix", u.Path
		if u.Host != "" || u.Path == "" {
			err = node.Errorf(node.Invalid, "cannot use the bus URL %s: a unix socket's path is absolute, unix:///path", e.Shown)
		}
	default:
		err = node.Errorf(node.Invalid, "cannot use the bus URL %s: its scheme is %q, allowed are redis, tcp and unix", e.Shown, u.Scheme)
	}
	if err != nil {
		return Endpoint{}, err
	}
	if db != "" {
		if e.DB, err = strconv.Atoi(db); err != nil || e.DB < 0 {
			return Endpoint{}, node.Errorf(node.Invalid, "cannot use the bus URL %s: database %q isn't a number from 0", e.Shown, db)
		}
	}
	return e, nil
}

func hostPort(u *url.URL) (string, error) {
	if u.Hostname() == "" {
		return "", node.Errorf(node.Invalid, "cannot use the bus URL %s: it has no host", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
