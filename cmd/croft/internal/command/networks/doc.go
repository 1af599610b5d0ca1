// Package networks has the commands on the private networks of a project file: they edit
// the file and make keys, and leave carrying it out to `croft apply`.
package networks
