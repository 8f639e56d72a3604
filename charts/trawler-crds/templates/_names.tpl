{{- define "trawler.labels" -}}
{{- $own := fromYaml (include "trawler.ownLabels" .) }}
{{- toYaml (mustMergeOverwrite (deepCopy .Values.commonLabels) $own) }}
{{- end }}

{{- define "trawler.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: trawler
{{- end }}

{{/* Names the release for the whole cluster; neither part can hold a colon. */}}
{{- define "trawler.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace .Release.Name }}
{{- end }}
