package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	// kubernetesVersion is the image's version of Kubernetes in its image.env.
	kubernetesVersion = "KUBERNETES_VERSION"
	// versionAt has the version that the control plane ran with last.
	versionAt = stateAt + "/kubernetes-version"
)

// checkVersion returns an error for a version of Kubernetes that the cluster's objects aren't safe with.
func checkVersion(version string) error {
	before, err := os.ReadFile(versionAt)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return upgrade(strings.TrimSpace(string(before)), version)
}

// upgrade returns an error unless a control plane may go from one version to the other: to another patch of the same minor version, or
// to the next one (https://kubernetes.io/releases/version-skew-policy/). An older one may not understand what the newer has stored, and
// one that is further ahead no longer what an old one has. Versions that can't be read are no reason to stop.
func upgrade(from, to string) error {
	var major, minor, newMajor, newMinor int
	if _, err := fmt.Sscanf(from, "v%d.%d.", &major, &minor); err != nil {
		say("cannot read the version of Kubernetes before: %.40q", from)
		return nil
	}
	if _, err := fmt.Sscanf(to, "v%d.%d.", &newMajor, &newMinor); err != nil {
		return fmt.Errorf("the image's version of Kubernetes is %.40q", to)
	}
	if newMajor != major || newMinor < minor || newMinor > minor+1 {
		return fmt.Errorf("the cluster's objects are of Kubernetes %s, the image has %s: it must be of v%d.%d or v%d.%d", from, to, major, minor, major, minor+1)
	}
	return nil
}
