package config

import (
	"math/bits"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// Every parser's error says what is allowed; whoever calls adds the setting,
// the value and its source.

type (
	setter        = func(c *Config, text string) error
	deviceName    = workload.DeviceType
	durationValue = time.Duration
)

// nowhere is the value that turns a listener off.
const nowhere = "none"

func path(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if !filepath.IsAbs(text) {
			return errors.New("an absolute path")
		}
		*field(c) = filepath.Clean(text)
		return nil
	}
}

func optionalPath(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if text == "" {
			*field(c) = ""
			return nil
		}
		return path(field)(c, text)
	}
}

func paths(field func(*Config) *[]string) setter {
	return func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range split(text) {
			if !filepath.IsAbs(item) {
				return errors.Errorf("absolute paths; %q isn't one", item)
			}
			*field(c) = append(*field(c), filepath.Clean(item))
		}
		return nil
	}
}

func httpURL(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if text != "" {
			u, err := url.Parse(text)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
				return errors.New("a URL such as https://explorer.example.org, without user and query")
			}
		}
		*field(c) = strings.TrimRight(text, "/")
		return nil
	}
}

func busURL(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if text != "" {
			u, err := url.Parse(text)
			unix := err == nil && u.Scheme == "unix" && filepath.IsAbs(u.Path) && u.Host == ""
			tcp := err == nil && (u.Scheme == "redis" || u.Scheme == "tcp") && u.Host != ""
			if !unix && !tcp {
				return errors.New("unix:///absolute/path or redis://[:password@]host:port")
			}
		}
		*field(c) = text
		return nil
	}
}

func busListen(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if text == nowhere {
			*field(c) = ""
			return nil
		}
		socket, ok := strings.CutPrefix(text, "unix://")
		if !ok || !filepath.IsAbs(socket) {
			return errors.New("unix:///absolute/path, or none")
		}
		*field(c) = text
		return nil
	}
}

func listenAddress(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if text == nowhere {
			*field(c) = ""
			return nil
		}
		_, port, err := net.SplitHostPort(text)
		if n, numErr := strconv.Atoi(port); err != nil || numErr != nil || n < 0 || n > 65535 {
			return errors.New("host:port with a port of 0 to 65535, or none")
		}
		*field(c) = text
		return nil
	}
}

// Nowhere is the value of DoorAddress where users don't reach the node by themselves.
const Nowhere = nowhere

// hostPort reads where others reach something; an empty text is kept.
func hostPort(field func(*Config) *string) setter {
	return func(c *Config, text string) error {
		if text != "" && text != nowhere {
			host, port, err := net.SplitHostPort(text)
			if n, numErr := strconv.Atoi(port); err != nil || numErr != nil || n < 1 || n > 65535 || host == "" || len(text) > 261 {
				return errors.New("host:port with a port of 1 to 65535, none, or empty")
			}
		}
		*field(c) = text
		return nil
	}
}

func number(field func(*Config) *uint64) setter {
	return func(c *Config, text string) error {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return errors.New("a whole number of 0 to 2^63-1")
		}
		*field(c) = n
		return nil
	}
}

func size(field func(*Config) *uint64) setter {
	return func(c *Config, text string) error {
		n, err := ParseSize(text)
		if err != nil {
			return err
		}
		*field(c) = n
		return nil
	}
}

// ParseSize reads a size in bytes: a whole number with B, KiB, MiB, GiB or TiB, or with none.
func ParseSize(text string) (uint64, error) {
	allowed := errors.New("a whole number with B, KiB, MiB, GiB or TiB, below 2^63 bytes")
	digits := strings.TrimRight(text, "BKMGTi")
	shifts := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
	shift, known := shifts[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known || bits.Len64(n)+int(shift) > 63 {
		return 0, allowed
	}
	return n << shift, nil
}

func duration(field func(*Config) *durationValue) setter {
	return func(c *Config, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return errors.New("a duration above 0, such as 30s, 5m or 168h")
		}
		*field(c) = d
		return nil
	}
}

func toggle(field func(*Config) *bool) setter {
	return func(c *Config, text string) error {
		if text != "true" && text != "false" {
			return errors.New("true or false")
		}
		*field(c) = text == "true"
		return nil
	}
}

func oneOf(field func(*Config) *string, allowed ...string) setter {
	return func(c *Config, text string) error {
		if !slices.Contains(allowed, text) {
			return errors.New("one of " + strings.Join(allowed, ", "))
		}
		*field(c) = text
		return nil
	}
}

func deviceType(field func(*Config) *deviceName) setter {
	return func(c *Config, text string) error {
		if t := deviceName(text); t == workload.SSD || t == workload.HDD {
			*field(c) = t
			return nil
		}
		return errors.New("SSD or HDD")
	}
}

func disks(field func(*Config) *[]Disk) setter {
	return func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range split(text) {
			kind, device, typed := strings.Cut(item, ":")
			if !typed {
				kind, device = "", item
			}
			t := deviceName(kind)
			if (typed && t != workload.SSD && t != workload.HDD) || !filepath.IsAbs(device) {
				return errors.Errorf("/dev/name, SSD:/dev/name or HDD:/dev/name; %q isn't", item)
			}
			*field(c) = append(*field(c), Disk{Type: t, Path: filepath.Clean(device)})
		}
		return nil
	}
}

func ids(field func(*Config) *[]string) setter {
	return func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range split(text) {
			if _, err := sign.ParseID(item); err != nil {
				return errors.Errorf("user IDs, the base58 of 32 bytes; %q isn't one", item)
			}
			*field(c) = append(*field(c), item)
		}
		return nil
	}
}

// exceptions are read by the dialer, whose error names the item and says why.
func exceptions(field func(*Config) *[]dial.Exception) setter {
	return func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range split(text) {
			e, err := dial.ParseException(item)
			if err != nil {
				return errors.Wrap(err, "ranges and addresses")
			}
			*field(c) = append(*field(c), e)
		}
		return nil
	}
}

func split(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
