// Package projects has the commands on a whole project or on reservations by ID: plan,
// apply, import, status, renew and delete. Packages plan and deploy decide and carry
// out; here are flags, questions to the user, and output.
package projects
