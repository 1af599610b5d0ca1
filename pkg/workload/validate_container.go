package workload

import (
	"maps"
	"path"
	"slices"
	"strings"
)

func validateContainer(r *Reservation, c *Container) error {
	for _, name := range slices.Sorted(maps.Keys(c.SecretEnv)) {
		if _, both := c.Env[name]; both {
			return refuse(join("data.secret_env", name), words("in env too"), "in one of env and secret_env")
		}
	}
	if less := c.Without(); len(less) > 0 && r.DocumentVersion() == V1 {
		return refuse("data."+less[0], words("true"), "absent in version 1")
	}
	if c.Name != "" && r.DocumentVersion() == V1 {
		return refuse("data.name", c.Name, "absent in version 1")
	}
	if _, err := SplitEntrypoint(c.Entrypoint); err != nil {
		return err
	}
	if err := validateMounts(r, c.Mounts); err != nil {
		return err
	}
	if err := validateHash(r, "data.network.network_hash", c.Network.NetworkHash); err != nil {
		return err
	}
	for i, ip := range c.Network.IPs {
		at := index("data.network.ips", i)
		if err := validateAddress(at, ip); err != nil {
			return err
		}
		// Equal by value: 10.0.0.1 is ::ffff:10.0.0.1.
		if slices.ContainsFunc(c.Network.IPs[:i], ip.Equal) {
			return refuse(at, ip.String(), "another address than the others")
		}
	}
	return nil
}

func validateMounts(r *Reservation, mounts []Mount) error {
	taken := map[string]bool{}
	for i, m := range mounts {
		at := index("data.mounts", i)
		if _, err := ParseID(m.VolumeID); err != nil {
			return refuse(join(at, "volume_id"), m.VolumeID, "the ID of a volume's reservation: N-M, two decimal numbers")
		}
		if err := validateHash(r, join(at, "volume_hash"), m.VolumeHash); err != nil {
			return err
		}
		clean := path.Clean(m.Mountpoint)
		if clean == "/" {
			return refuse(join(at, "mountpoint"), m.Mountpoint, "an absolute path other than /")
		}
		if reserved(clean) {
			return refuse(join(at, "mountpoint"), m.Mountpoint, "an absolute path that isn't /proc, /sys or /dev, nor in one of them")
		}
		if taken[clean] {
			return refuse(join(at, "mountpoint"), m.Mountpoint, "another path than the other mounts have")
		}
		taken[clean] = true
	}
	return nil
}

// reserved reports whether a container has that clean path from the kernel.
func reserved(clean string) bool {
	for _, top := range []string{"/proc", "/sys", "/dev"} {
		if clean == top || strings.HasPrefix(clean, top+"/") {
			return true
		}
	}
	return false
}
