// Package plan computes the changes that bring a project's reservations in line
// with its file. It is pure: the wanted and the known workloads go in, a list of
// changes comes out.
package plan
