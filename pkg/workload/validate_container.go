package workload

import (
	"maps"
	"path"
	"slices"
)

func validateContainer(c *Container) error {
	for _, name := range slices.Sorted(maps.Keys(c.SecretEnv)) {
		if _, both := c.Env[name]; both {
			return refuse(join("data.secret_env", name), words("in env too"), "in one of env and secret_env")
		}
	}
	taken := map[string]bool{}
	for i, m := range c.Mounts {
		at := index("data.mounts", i)
		if _, err := ParseID(m.VolumeID); err != nil {
			return refuse(join(at, "volume_id"), m.VolumeID, "the ID of a volume's reservation: N-M, two decimal numbers")
		}
		clean := path.Clean(m.Mountpoint)
		if clean == "/" {
			return refuse(join(at, "mountpoint"), m.Mountpoint, "an absolute path other than /")
		}
		if taken[clean] {
			return refuse(join(at, "mountpoint"), m.Mountpoint, "another path than the other mounts have")
		}
		taken[clean] = true
	}
	for i, ip := range c.Network.IPs {
		if err := validateAddress(index("data.network.ips", i), ip); err != nil {
			return err
		}
	}
	return nil
}
