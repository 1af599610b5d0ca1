package bus

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// endpoint is where a redis is, and how one gets in.
type endpoint struct {
	network, address   string
	username, password string
	db                 int
	// shown is the URL without its password.
	shown string
}

// parseURL reads redis://[[user]:password@]host[:port][/db], unix://path[?db=n]
// and, as the bare library has it, tcp://[password@]host:port.
func parseURL(raw string) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// url's error would show the password.
		return endpoint{}, node.Errorf(node.Invalid, "cannot read the bus URL: it isn't a URL; allowed are redis://[:password@]host[:port][/db], tcp://host:port and unix:///path")
	}
	e := endpoint{shown: u.Redacted()}
	if u.User != nil {
		e.username = u.User.Username()
		e.password, _ = u.User.Password()
		if _, has := u.User.Password(); !has {
			e.username, e.password = "", u.User.Username()
			u.User = url.UserPassword("", "xxxxx")
			e.shown = u.String()
		}
	}
	db := u.Query().Get("db")
	switch u.Scheme {
	case "redis", "tcp":
		e.network = "tcp"
		e.address, err = hostPort(u)
		if path := strings.Trim(u.Path, "/"); path != "" {
			db = path
		}
	case "unix":
		e.network, e.address = "unix", u.Path
		if u.Host != "" || u.Path == "" {
			err = node.Errorf(node.Invalid, "cannot use the bus URL %s: a unix socket's path is absolute, unix:///path", e.shown)
		}
	default:
		err = node.Errorf(node.Invalid, "cannot use the bus URL %s: its scheme is %q, allowed are redis, tcp and unix", e.shown, u.Scheme)
	}
	if err != nil {
		return endpoint{}, err
	}
	if db != "" {
		if e.db, err = strconv.Atoi(db); err != nil || e.db < 0 {
			return endpoint{}, node.Errorf(node.Invalid, "cannot use the bus URL %s: database %q isn't a number from 0", e.shown, db)
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
