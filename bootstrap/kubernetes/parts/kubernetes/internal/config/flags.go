package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Flags that kube-server adds stand first: of a flag that is given twice, the last holds. Without those about the
// shutdown, a stop would wait for the requests of controllers and clients, a minute for an open watch. The controller
// manager and the scheduler serve their metrics and health to the machine itself only.

// APIServerFlags are the flags of the API server.
func (c Config) APIServerFlags() []string {
	return append([]string{
		"--etcd-servers=unix://" + c.Etcd.Socket(), "--shutdown-send-retry-after=true", "--shutdown-watch-termination-grace-period=1s",
	}, c.APIServer...)
}

// ControllerManagerFlags are the flags of the controller manager.
func (c Config) ControllerManagerFlags() []string {
	return append([]string{"--leader-elect=false", "--bind-address=127.0.0.1", "--controller-shutdown-timeout=2s"}, c.ControllerManager...)
}

// SchedulerFlags are the flags of the scheduler.
func (c Config) SchedulerFlags() []string {
	return append([]string{"--leader-elect=false", "--bind-address=127.0.0.1"}, c.Scheduler...)
}

// ReadyURL is the address that tells whether the API server is ready, by its flags --bind-address and --secure-port.
func (c Config) ReadyURL() (string, error) {
	host, port := "127.0.0.1", "6443"
	for i, flag := range c.APIServer {
		name, _ := flagName(flag)
		_, value, _ := strings.Cut(flag, "=")
		switch name {
		case "bind-address":
			ip := net.ParseIP(value)
			if ip == nil {
				return "", fmt.Errorf("apiserver[%d]: --bind-address is %q: want an IP address", i, value)
			}
			host = "127.0.0.1"
			if !ip.IsUnspecified() {
				host = ip.String()
			}
		case "secure-port":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 65535 {
				return "", fmt.Errorf("apiserver[%d]: --secure-port is %q: want 1 to 65535", i, value)
			}
			port = strconv.Itoa(n)
		}
	}
	return "https://" + net.JoinHostPort(host, port) + "/readyz", nil
}
